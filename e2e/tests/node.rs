//! What only a real node shows: the images, an installation by Helm, the way through the Service, what happens while
//! pods come and go, and that nobody is locked out when none can come.
//!
//! It needs root on Linux and what `hns_e2e::node::requirements` names, so a plain `cargo test` ignores it. `cargo xtask test`
//! runs it where it can, and says that it is skipped where it cannot; with `HNS_NODE=require` that is a failure, and Debian's
//! packages are installed first. One test: it is one life of one installation.

#[cfg(test)]
mod node {
    mod admission;
    mod change;
    mod load;
    mod lockout;
    mod uninstall;
    mod world;

    use std::time::{Duration, Instant};

    use hns_e2e::node::images::Images;
    use hns_e2e::node::requirements;
    use hns_e2e::node::sandbox::{Inside, Sandbox};
    use hns_e2e::programs::NodePrograms;
    use hns_e2e::{Cluster, Programs, node};

    use self::world::World;

    /// The product's promise is five minutes on a machine of its own; a shared one may be slower.
    const TIMEOUT: Duration = Duration::from_secs(15 * 60);

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "needs root on Linux and packages of Debian; run it with `cargo xtask node`"]
    async fn a_real_node() {
        if let Some(sandbox) = Inside::current() {
            return inside(&sandbox).await.unwrap();
        }
        requirements::check(requirements::required()).expect("a node can run here");
        let began = Instant::now();
        let sandbox = Sandbox::new().unwrap();
        tokio::task::block_in_place(|| {
            Programs::find_or_build().unwrap();
            Programs::helm().unwrap();
            NodePrograms::find_or_build().unwrap();
            let images = Images::build(sandbox.directory(), world::reference).unwrap();
            images.check_sizes().unwrap();
        });
        eprintln!("node: programs and images: {:.1} s", began.elapsed().as_secs_f32());
        let began = Instant::now();
        sandbox.run("node::a_real_node", TIMEOUT).await.unwrap();
        eprintln!("node: everything on it: {:.1} s", began.elapsed().as_secs_f32());
    }

    /// Runs one step and says how long it took.
    macro_rules! step {
        ($name:literal, $step:expr) => {{
            let began = Instant::now();
            let said = $step.await?;
            eprintln!("node: {}: {said} ({:.1} s)", $name, began.elapsed().as_secs_f32());
        }};
    }

    async fn inside(sandbox: &Inside) -> anyhow::Result<()> {
        let cluster = Cluster::start_at(node::ADDRESS).await?;
        let world = World::start(&cluster, sandbox).await?;
        let outcome = live(&world).await;
        if outcome.is_err() {
            eprintln!("{}", world.state().await);
        }
        outcome
    }

    async fn live(world: &World<'_>) -> anyhow::Result<()> {
        step!("install", world.install());
        step!("Service", world.service());
        step!("admission", admission::table(world));
        step!("rolling restart", change::restart(world));
        step!("helm upgrade", change::upgrade(world));
        step!("certificate", change::certificate(world));
        step!("API server restarted", change::api_server(world));
        step!("lock-out", lockout::nobody_is_locked_out(world));
        step!("uninstall", uninstall::everything_stays(world));
        step!("another installation", uninstall::another_installation(world));
        step!("uninstall for good", uninstall::nothing_is_held(world));
        Ok(())
    }
}
