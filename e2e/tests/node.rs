//! What only a real node shows: the images, an installation by Helm, the way through the Service, what happens while
//! pods come and go, and that nobody is locked out when none can come.
//!
//! It runs where it can (root on Linux, with the programs that `hns_e2e::node::requirements` names) and says why where it
//! cannot; with `HNS_NODE=require` that is a failure, and Debian's packages are installed first.

#[cfg(test)]
mod node {
    mod world;

    use std::time::{Duration, Instant};

    use hns_e2e::node::images::Images;
    use hns_e2e::node::requirements;
    use hns_e2e::node::sandbox::{Inside, Sandbox};
    use hns_e2e::programs::NodePrograms;

    use self::world::World;

    const TIMEOUT: Duration = Duration::from_secs(8 * 60);

    #[tokio::test(flavor = "multi_thread")]
    async fn a_real_node() {
        if let Some(sandbox) = Inside::current() {
            return inside(&sandbox).await.unwrap();
        }
        let required = std::env::var_os("HNS_NODE").is_some_and(|value| value == "require");
        if let Err(reason) = requirements::check(required) {
            assert!(!required, "the node test cannot run here: {reason:#}");
            eprintln!("node: not run, because {reason:#}");
            return;
        }
        let began = Instant::now();
        let sandbox = Sandbox::new().unwrap();
        tokio::task::block_in_place(|| {
            NodePrograms::find_or_build().unwrap();
            Images::build(sandbox.directory(), world::reference).unwrap();
        });
        eprintln!("node: programs and images after {:.1} s", began.elapsed().as_secs_f32());
        let began = Instant::now();
        sandbox.run("node::a_real_node", TIMEOUT).await.unwrap();
        eprintln!("node: all of it in {:.1} s", began.elapsed().as_secs_f32());
    }

    async fn inside(sandbox: &Inside) -> anyhow::Result<()> {
        let mut world = World::start(sandbox).await?;
        world.install().await
    }
}
