//! The forest is small: so many bytes for a namespace, a copy, a source, and no more, after any earlier facts.
//!
//! Counts what is asked of the allocator. `cargo bench -p forest --bench memory` says more, and of larger forests.

#[path = "../benches/support/world.rs"]
#[allow(dead_code, reason = "the benches share it, and this uses a part")]
mod world;

use forest::{Fact, Forest};
use world::{Objects, World, roles};

const NAMESPACES: usize = 10_000;

/// By how many bytes the forest grows with these facts.
fn grown(forest: &mut Forest, facts: impl Iterator<Item = Fact>) -> i64 {
    let tell = || facts.for_each(|fact| drop(forest.apply(fact)));
    allocation_counter::measure(tell).bytes_current
}

fn objects(world: &World) -> impl Iterator<Item = Fact> {
    let kind = roles(&world::empty());
    (0..world.namespaces).flat_map(|at| world.objects_in(at)).map(move |seen| Fact::Object(kind, seen))
}

fn gone(fact: Fact) -> Option<Fact> {
    match fact {
        Fact::Object(kind, it) => Some(Fact::ObjectGone(kind, it.namespace, it.name, it.version.uid)),
        _ => None,
    }
}

/// The same of an object of the same name that has come later.
fn another(fact: Fact) -> Fact {
    match fact {
        Fact::Object(kind, mut it) => {
            it.version.uid = it.version.uid.chars().rev().collect::<String>().into();
            Fact::Object(kind, it)
        }
        other => other,
    }
}

#[test]
fn a_namespace_takes_less_than_400_bytes() {
    let mut world = World::new(NAMESPACES, Objects::default());
    let mut forest = world::empty();
    let bytes = grown(&mut forest, world.one_by_one()) / i64::try_from(NAMESPACES).unwrap();
    println!("{bytes} bytes for each of {NAMESPACES} namespaces");
    assert!((100..400).contains(&bytes), "{bytes} bytes");

    // What is told anew takes the place of what was known.
    world.tick();
    let more = grown(&mut forest, world.one_by_one());
    assert!(more.abs() < 1000, "{more} bytes more when everything had been told once more");
}

#[test]
fn an_object_takes_a_couple_of_hundred_bytes() {
    // Of a source all that is in it is kept where copies of it may be needed: here a Role of one rule.
    for (what, objects_in_each, most) in
        [("copy", Objects { shared: 10, own: 0 }, 160), ("source", Objects { shared: 0, own: 10 }, 1000)]
    {
        let world = World::new(200, objects_in_each);
        let mut forest = world::empty();
        world.one_by_one().for_each(|fact| drop(forest.apply(fact)));
        let bytes = grown(&mut forest, objects(&world)) / 2_000;
        println!("{bytes} bytes for each {what}");
        assert!((50..most).contains(&bytes), "{bytes} bytes for each {what}");

        // All of it is given back, but for the fingerprints of what has gone and room for as many names. So it does not add up.
        objects(&world).filter_map(gone).for_each(|fact| drop(forest.apply(fact)));
        let others = || objects(&world).map(another);
        let came = grown(&mut forest, others());
        let more = came + grown(&mut forest, others().filter_map(gone));
        assert!(came / 2_000 > bytes / 2, "{came} bytes for others of the same names");
        let left = more / 2_000;
        println!("{left} bytes more after each {what} has come and gone once more");
        assert!(left < 64, "{left} bytes are left of each {what}");
    }
}
