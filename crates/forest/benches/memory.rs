//! How many bytes a namespace, a copy and a source take: `cargo bench -p forest --bench memory`.
//!
//! Two figures, because neither tells all: what the forest has asked the allocator for and not given back, and by how much
//! the process grew, which is that and what the allocator itself needs. Each world is built in a process of its own.
#![allow(clippy::print_stdout, reason = "its table is what it is for")]
#![allow(clippy::disallowed_methods, reason = "the forest does no I/O; what measures it does")]

#[path = "support/world.rs"]
#[allow(dead_code, reason = "the benches share it, and each uses a part")]
mod world;

use std::process::Command;

use forest::{Fact, Forest};
use world::{Objects, World};

const NONE: Objects = Objects { shared: 0, own: 0 };
const COPIES: Objects = Objects { shared: 10, own: 0 };
const SOURCES: Objects = Objects { shared: 0, own: 10 };

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--world") {
        return measure(&args[at + 1..]);
    }
    println!("{:>10} {:>10} {:>12} {:>12}", "namespaces", "what", "asked for", "resident");
    for (namespaces, what) in [
        (1_000, "namespace"),
        (10_000, "namespace"),
        (100_000, "namespace"),
        (1_000_000, "namespace"),
        (10_000, "copy"),
        (10_000, "source"),
    ] {
        let program = std::env::current_exe().expect("a running program has a path");
        let status = Command::new(program).args(["--world", &namespaces.to_string(), what]).status();
        assert!(status.is_ok_and(|status| status.success()), "{namespaces} {what}");
    }
}

fn measure(args: &[String]) {
    let namespaces: usize = args[0].parse().expect("a number");
    let objects = match args[1].as_str() {
        "copy" => COPIES,
        "source" => SOURCES,
        _ => NONE,
    };
    let world = World::new(namespaces, objects);
    let mut forest = world::empty();
    let mut all = grown(&mut forest, || world.one_by_one());
    let mut many = namespaces;
    if objects.shared + objects.own > 0 {
        all = grown(&mut forest, || self::objects(&world));
        many *= objects.shared + objects.own;
    }
    println!("{namespaces:>10} {:>10} {:>12} {:>12}", args[1], all.0 / many, all.1 / many);
}

/// By how many bytes the forest grows with these facts: what it asked for, and what the process took.
fn grown<F: Iterator<Item = Fact>>(forest: &mut Forest, facts: impl FnOnce() -> F) -> (usize, usize) {
    let before = resident();
    let asked = allocation_counter::measure(|| {
        for fact in facts() {
            forest.apply(fact);
        }
    });
    let asked = usize::try_from(asked.bytes_current).expect("it grew");
    (asked, resident().saturating_sub(before))
}

fn objects(world: &World) -> impl Iterator<Item = Fact> {
    let kind = world::roles(&world::empty());
    (0..world.namespaces).flat_map(move |at| world.objects_in(at)).map(move |seen| Fact::Object(kind, seen))
}

/// The memory of this process that is not on disk.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages: usize = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}
