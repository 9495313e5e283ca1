//! As much of PromQL as it takes to see what an expression asks for.

/// A metric and what its labels must be.
#[derive(Debug, PartialEq)]
pub struct Selector {
    pub metric: String,
    /// Label, operator, value.
    pub matchers: Vec<(String, String, String)>,
}

const WORDS: [&str; 10] =
    ["and", "bool", "by", "group_left", "group_right", "ignoring", "offset", "on", "or", "unless"];

/// An expression without its strings, each of which is `"` and a number, and the strings.
fn tokens(expression: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_ascii_alphanumeric() || "_:.".contains(c);
        let end = match first {
            '"' => rest[1..].find('"').unwrap() + 2,
            '[' => rest.find(']').unwrap() + 1,
            '=' | '!' | '<' | '>' => 1 + usize::from(rest[1..].starts_with(['=', '~'])),
            c if word(c) => rest.find(|c| !word(c)).unwrap_or(rest.len()),
            _ => 1,
        };
        tokens.push(rest[..end].to_owned());
        rest = rest[end..].trim_start();
    }
    tokens
}

/// The words in parentheses behind `by`, `on`, `ignoring`, `without`: where they begin, and how
/// many tokens they are.
fn lists(tokens: &[String]) -> impl Iterator<Item = &[String]> {
    let heads = tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| ["by", "on", "ignoring", "without"].contains(&token.as_str()));
    heads.map(|(at, _)| {
        let list = &tokens[at + 1..];
        let end = list.iter().position(|token| token == ")").unwrap();
        &list[1..end]
    })
}

/// The labels that an expression groups or joins by.
pub fn grouping(expression: &str) -> Vec<String> {
    let tokens = tokens(expression);
    let labels = lists(&tokens).flatten().filter(|token| *token != ",");
    labels.cloned().collect()
}

/// All that an expression selects.
pub fn selectors(expression: &str) -> Vec<Selector> {
    let tokens = tokens(expression);
    let next = |at: usize| tokens.get(at + 1).map_or("", String::as_str);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let token = &tokens[at];
        let name = token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if ["by", "on", "ignoring", "without"].contains(&token.as_str()) {
            at += tokens[at..].iter().position(|token| token == ")").unwrap();
        } else if name
            && !["(", "by", "without"].contains(&next(at))
            && !WORDS.contains(&token.as_str())
        {
            let mut matchers = Vec::new();
            let metric = token.clone();
            if next(at) == "{" {
                let end = at + tokens[at..].iter().position(|token| token == "}").unwrap();
                for one in tokens[at + 2..end].split(|token| token == ",") {
                    let value = one[2].trim_matches('"').to_owned();
                    matchers.push((one[0].clone(), one[1].clone(), value));
                }
                at = end;
            }
            found.push(Selector { metric, matchers });
        }
        at += 1;
    }
    found
}

#[test]
fn metrics_and_labels_of_an_expression_are_found() {
    let one = |metric: &str, matchers: &[(&str, &str, &str)]| Selector {
        metric: metric.to_owned(),
        matchers: matchers
            .iter()
            .map(|(label, operator, value)| {
                ((*label).to_owned(), (*operator).to_owned(), (*value).to_owned())
            })
            .collect(),
    };
    let cases: &[(&str, &str, Vec<Selector>, &[&str])] = &[
        ("a name", "up", vec![one("up", &[])], &[]),
        (
            "a sample",
            "a{b=\"c, d\",le=\"+Inf\"}",
            vec![one("a", &[("b", "=", "c, d"), ("le", "=", "+Inf")])],
            &[],
        ),
        (
            "a function, a range, numbers",
            "histogram_quantile(0.95, sum by (le, pool) (rate(a_bucket{p=~\".*\"}[5m]))) > 3.5e2",
            vec![one("a_bucket", &[("p", "=~", ".*")])],
            &["le", "pool"],
        ),
        (
            "a join",
            "time() - max by (pool) (a) > 3600 and on (pool) b{s!=\"x\"} == 1 or vector(0)",
            vec![one("a", &[]), one("b", &[("s", "!=", "x")])],
            &["pool", "pool"],
        ),
        ("a grouping behind", "sum(a) by (x)", vec![one("a", &[])], &["x"]),
    ];
    for (what, expression, want, labels) in cases {
        assert_eq!(&selectors(expression), want, "{what}");
        assert_eq!(&grouping(expression), labels, "{what}");
    }
}
