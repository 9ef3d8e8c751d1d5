use super::*;

#[test]
fn an_object_that_says_nothing_goes_everywhere_its_mode_lets_it() {
    let nothing = Exceptions::parse(|_| None).unwrap();
    for (mode, answer) in [
        (Mode::Propagate, Ok(())),
        (Mode::AllowPropagate, Err(Withheld::NotOptedIn)),
        (Mode::Remove, Err(Withheld::Mode(Mode::Remove))),
        (Mode::Ignore, Err(Withheld::Mode(Mode::Ignore))),
    ] {
        assert_eq!(nothing.admit(mode, &|_| None), answer, "{mode}");
    }
}
