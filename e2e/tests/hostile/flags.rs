//! Command lines, right and wrong, of both binaries. Nothing is started but the binaries, and they end by themselves.

use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};

const BINARIES: [&str; 2] = ["hns-webhook", "hns-controller"];

/// A kubeconfig that does not exist: a program that reports this has parsed all flags.
const NOWHERE: &str = "--kubeconfig=no/such/kubeconfig";

fn run(binary: &str, args: &[&str]) -> Result<Output> {
    let tests = std::env::current_exe()?;
    let directory = tests.parent().and_then(|deps| deps.parent()).context("a directory of binaries")?;
    let program: PathBuf = directory.join(binary);
    let mut command = Command::new(&program);
    command.args(args).env_remove("RUST_LOG");
    command.output().with_context(|| format!("running {}", program.display()))
}

#[test]
fn a_wrong_value_ends_it_with_one_line_that_names_the_flag() -> Result<()> {
    let both = [
        ("--namespace=Not_A_Namespace", "--namespace"),
        ("--metrics-addr=everywhere", "--metrics-addr"),
        ("--health-probe-bind-address=:70000", "--health-probe-bind-address"),
        ("--apiserver-qps-throttle=many", "--apiserver-qps-throttle"),
        ("-debug-logs=perhaps", "--debug-logs"),
        ("--log-format=poem", "--log-format"),
        ("--no-such-flag", "--no-such-flag"),
        ("--namespace", "--namespace"),
        ("stray", "stray"),
    ];
    let webhook = [
        ("--webhook-server-port=0", "--webhook-server-port"),
        ("-webhook-server-port=https", "--webhook-server-port"),
        ("--shutdown-delay=soon", "--shutdown-delay"),
        ("--shutdown-delay=10s", "--shutdown-delay"),
        ("--client-allowed-name=", "--client-allowed-name"),
        ("--controller-service-account=", "--controller-service-account"),
    ];
    let controller = [
        ("--leader-election-id=Not/A/Name", "--leader-election-id"),
        ("--excluded-namespace=a/b", "--excluded-namespace"),
        ("--included-namespace-regex=(", "--included-namespace-regex"),
        ("--cert-validity=0s", "--cert-validity"),
        ("--leader-elect-lease-duration=1500ms", "--leader-elect-lease-duration=1.5s must"),
        ("--leader-elect-renew-deadline=20s", "--leader-elect-renew-deadline=20s must"),
        ("--leader-elect-retry-period=11s", "--leader-elect-retry-period=11s must"),
        ("--leader-elect-retry-period=0s", "--leader-elect-retry-period must"),
    ];
    let all = BINARIES.iter().flat_map(|binary| both.iter().map(move |case| (*binary, *case)));
    let own = webhook
        .iter()
        .map(|case| (BINARIES[0], *case))
        .chain(controller.iter().map(|case| (BINARIES[1], *case)));
    for (binary, (arg, named)) in all.chain(own) {
        let output = run(binary, &[NOWHERE, arg])?;
        let (said, printed) = (String::from_utf8(output.stderr)?, String::from_utf8(output.stdout)?);
        ensure!(output.status.code() == Some(2), "{binary} {arg}: {} {said}", output.status);
        ensure!(
            said.lines().count() == 1 && said.contains(named) && printed.is_empty(),
            "{binary} {arg}: {said:?}"
        );
        println!("{}", said.trim_end());
    }
    Ok(())
}

#[test]
fn right_values_in_gos_spellings_are_understood() -> Result<()> {
    for binary in BINARIES {
        for (args, setting) in [
            (&["-namespace=x"][..], "--namespace=x"),
            (&["-namespace", "x"], "--namespace=x"),
            (&["--namespace", "y", "--namespace=x"], "--namespace=x"),
            (&["--debug-logs=false"], "--debug-logs=false"),
            (&["-debug-logs"], "--debug-logs=true"),
            (&["--debug-logs=T"], "--debug-logs=T"),
            (&["-metrics-addr=0"], "--metrics-addr=0"),
            (&["-apiserver-qps-throttle=-1"], "--apiserver-qps-throttle=-1"),
            // On the webhook it is named, and has no effect.
            (&["--excluded-namespace=a"], "--excluded-namespace"),
            (&["--enable-internal-cert-management", "-max-reconciles=10", "-namespace=x"], "--namespace=x"),
        ] {
            let output = run(binary, &[&[NOWHERE], args].concat())?;
            let said = String::from_utf8(output.stderr)?;
            // It got as far as the kubeconfig, and says so.
            ensure!(output.status.code() == Some(1), "{binary} {args:?}: {} {said}", output.status);
            ensure!(said.contains(setting), "{binary} {args:?}: no {setting} in {said}");
            let last = said.lines().last().unwrap_or_default();
            ensure!(last.contains("no/such/kubeconfig"), "{binary} {args:?}: {last}");
        }
        let ignored = run(binary, &[NOWHERE, "--cert-restart-on-secret-refresh", "-max-reconciles=10"])?;
        let said = String::from_utf8(ignored.stderr)?;
        let about = said.lines().filter(|line| line.contains("max-reconciles")).collect::<Vec<_>>();
        ensure!(about.len() == 1 && about[0].contains("cert-restart-on-secret-refresh"), "{said}");
        println!("{binary}: {}", about[0]);
    }
    Ok(())
}
