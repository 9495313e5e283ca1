use super::*;
use std::cmp::Ordering::{Equal, Greater, Less};

fn release(text: &str) -> Release {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn releases_are_ordered_within_a_scheme() {
    let cases = [
        ("the same", "9.6.20260210-0", "9.6.20260210-0", Some(Equal)),
        ("another day", "9.6.20260209-0", "9.6.20260210-0", Some(Less)),
        ("another build", "9.6.20260210-1", "9.6.20260210-0", Some(Greater)),
        ("RHEL before day", "9.6.20260301-0", "10.0.20260210-0", Some(Less)),
        ("two digits of RHEL", "9.10.20260101-0", "9.6.20260210-0", Some(Greater)),
        ("OpenShift's", "418.94.202511191518-0", "418.94.202511191517-0", Some(Greater)),
        ("4.6 and 4.18", "46.82.202511191518-0", "418.94.202001010000-0", Some(Less)),
        ("old and new scheme", "418.94.202611191518-0", "9.6.20260210-0", Some(Less)),
        ("new and old scheme", "9.6.20260210-0", "418.94.202611191518-0", Some(Greater)),
        ("one RHEL in both", "418.96.202602091518-0", "9.6.20260210-0", Some(Less)),
        ("one RHEL and day in both", "418.96.202602101518-0", "9.6.20260210-0", None),
        ("RHEL 8.10", "412.810.202511191518-0", "412.86.202511191518-0", Some(Greater)),
        ("Fedora's", "42.20250609.3.0", "41.20250105.3.0", Some(Greater)),
        ("a build of Fedora", "42.20250609.3.1", "42.20250609.3.0", Some(Greater)),
        ("two streams of Fedora", "42.20250609.3.0", "42.20250609.2.0", None),
        ("versions", "4.18.9", "4.18.10", Some(Less)),
        ("a candidate", "4.19.0-rc.1", "4.19.0", Some(Less)),
        ("candidates", "4.19.0-rc.10", "4.19.0-rc.9", Some(Greater)),
        ("a longer candidate", "4.19.0-rc.1.a", "4.19.0-rc.1", Some(Greater)),
        ("kinds of candidates", "4.19.0-ec.3", "4.19.0-rc.0", Some(Less)),
        ("number and word", "4.19.0-1", "4.19.0-a", Some(Less)),
        ("an OS and a cluster", "9.6.20260210-0", "4.18.3", None),
        ("RHEL and Fedora", "9.6.20260210-0", "42.20250609.3.0", None),
    ];
    for (what, one, other, want) in cases {
        let (one, other) = (release(one), release(other));
        assert_eq!(one.compare(&other), want, "{what}");
        assert_eq!(other.compare(&one), want.map(Ordering::reverse), "{what}, the other way");
    }
}

#[test]
fn what_is_no_release() {
    let cases = [
        "",
        "stable",
        "4.18",
        "4.18.3-",
        "v1.33.1",
        "9.6.20260210",
        "9.6.20261310-0",
        "9.6.20260200-0",
        "9.6.20260210-x",
        "418.94.20251119151-0",
        "518.94.202511191518-0",
        "4.94.202511191518-0",
        "418.9.202511191518-0",
        "41.20250105.3",
        "41.2025010५.3.0",
        "99999999999.20250105.3.0",
        "4.18.999999",
        "418.94.20250122-0",
        "4.18.3 ",
        "4.18.3/../x",
    ];
    for text in cases {
        assert_eq!(text.parse::<Release>(), Err(ReleaseError(text.to_owned())), "{text:?}");
    }
    let long = "1".repeat(5000);
    assert_eq!(long.parse::<Release>(), Err(ReleaseError("1".repeat(64))));
}

#[test]
fn age_follows_from_the_date() {
    // 2026-02-12T09:10:11Z
    let now = 1_770_887_411;
    let cases = [
        ("two days before", "9.6.20260210-0", Some(2)),
        ("today", "418.94.202602121518-0", Some(0)),
        ("tomorrow", "42.20260213.3.0", Some(-1)),
        ("over a leap day", "42.20240228.3.0", Some(715)),
        ("a cluster's version", "4.18.3", None),
    ];
    for (what, text, want) in cases {
        assert_eq!(release(text).age_in_days(now), want, "{what}");
    }
    assert_eq!(release("42.20000301.3.0").age_in_days(951_868_800), Some(0));
}

#[test]
fn the_rhel_of_a_release() {
    let cases = [
        ("418.94.202511191518-0", Some((9, 4))),
        ("412.810.202511191518-0", Some((8, 10))),
        ("4.19.3", None),
        ("9.6.20260210-0", Some((9, 6))),
        ("42.20260213.3.0", None),
    ];
    for (text, want) in cases {
        assert_eq!(release(text).rhel(), want, "{text}");
        assert_eq!(release(text).to_string(), text);
        assert_eq!(release(text).is_of_os(), text != "4.19.3");
    }
}
