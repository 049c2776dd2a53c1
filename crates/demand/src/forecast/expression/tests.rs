use chrono::DateTime;
use proptest::prelude::*;

use super::*;

/// Sunday, 1 November 2026, 17:40 UTC.
const NOW: i64 = 1_793_554_800;

/// The value for a bucket with 6 nodes in demand.
fn value(text: &str) -> Result<u64, String> {
    let expression: Expression = text.parse()?;
    let past = |of: &Statistic| match of.kind {
        StatisticKind::Percentile(percent) => percent / 10.0,
        StatisticKind::Max => 9.0,
        StatisticKind::Min => 2.0,
        StatisticKind::Mean => 4.5,
        StatisticKind::NewNodes => of.seconds as f64 / 60.0,
    };
    let past: Vec<f64> = expression.statistics().iter().map(past).collect();
    Ok(expression.placeholders(&Inputs {
        bucket: "p3.2xlarge/spot",
        demand: 6.0,
        cores: 8.0,
        price: 3.06,
        forecast: 3.0,
        now: DateTime::from_timestamp(NOW, 0).unwrap(),
        past: &past,
    }))
}

#[test]
fn an_expression_is_the_number_of_placeholders_rounded_up() {
    let cases = [
        ("3", 3),
        ("demand * 0.25", 2),
        ("demand / 2", 3),
        ("0.1 + 0.2", 1),
        // Noise of the arithmetic is no further node.
        ("(0.1 + 0.2) * 10", 3),
        ("forecast + 1", 4),
        ("-demand", 0),
        ("demand - 7", 0),
        // A quiet time is no reason for an infinite number of nodes.
        ("demand / (demand - 6)", 0),
        ("0 / 0", 0),
        ("5 % 0", 0),
        ("1e300", 16_384),
        ("1e300 * 1e300", 0),
        ("demand % 4", 2),
        ("(now.getHours() - 18) % 24", 23),
        ("min(demand, 4, forecast)", 3),
        ("max(demand, 4, forecast)", 6),
        ("max(forecast, demand.percentile(95, \"1h\") / 0.8 - demand)", 6),
        ("demand.max(\"1h\")", 9),
        ("demand.min(duration(\"1h\"))", 2),
        ("demand.mean('1d')", 5),
        ("newNodes(\"10m\") / 2", 5),
        ("newNodes(\"4m\") + newNodes(\"3m\") + newNodes(\"4m\")", 11),
        ("cores * price", 25),
        ("floor(2.9) + ceil(2.1) + round(2.5) + int(2.9)", 10),
        ("double(demand) * 0.5", 3),
        ("demand > 4 ? 2 : 1", 2),
        ("demand > 4 && forecast == 3 ? 2 : 1", 2),
        ("demand < 4 || !(forecast != 3) ? 2 : 1", 2),
        ("(demand > 4) == (forecast >= 4) ? 2 : 1", 1),
        ("(demand > 4 ? forecast <= 3 : false) ? 2 : 1", 2),
        ("now.getHours() in [16, 17, 18] ? 2 : 1", 2),
        ("now.getHours() * 100 + now.getMinutes()", 1_740),
        ("now.getDayOfWeek() == 0 ? 2 : 1", 2),
        ("now.getDate() * 100 + now.getDayOfMonth() * 10 + now.getMonth()", 110),
        ("bucket == \"p3.2xlarge\" ? 2 : 1", 1),
        ("bucket in [\"m5.xlarge\", \"p3.2xlarge/spot\"] ? 2 : 1", 2),
        ("bucket.startsWith(\"p3.\") && bucket.endsWith(\"/spot\") ? 2 : 1", 2),
        ("bucket.contains(\"2x\") && bucket != \"m5\" ? 2 : 1", 2),
    ];
    for (text, expected) in cases {
        assert_eq!(value(text), Ok(expected), "{text}");
    }
}

#[test]
fn an_invalid_expression_has_an_error_that_names_the_mistake() {
    let cases = [
        ("", "no valid CEL at 1:1: mismatched input '<EOF>' expecting expression"),
        ("demand +", "no valid CEL at 1:9: mismatched input '<EOF>' expecting expression"),
        ("1e400", "no valid CEL at 1:1: invalid double literal"),
        ("demnd + 1", "unknown variable \"demnd\": did you mean demand?"),
        (
            "pods + 1",
            "unknown variable \"pods\": expected demand, forecast, cores, price, bucket, now",
        ),
        (
            "pods.max(\"1h\")",
            "unknown variable \"pods\": expected demand, forecast, cores, price, bucket, now",
        ),
        ("forecast.max(\"1h\")", "forecast has no functions, got forecast.max"),
        (
            "sum(demand, 1)",
            "unknown function \"sum\": expected min, max, ceil, floor, round, int, double, newNodes",
        ),
        ("ceil(1, 2)", "ceil takes one number, got 2"),
        ("min()", "min takes at least one number, got none"),
        ("newNodes()", "newNodes takes a period, as in newNodes(\"10m\")"),
        ("newNodes(10)", "a period is a text, such as \"10m\" or \"1h\""),
        ("newNodes(\"10\")", "10 has no unit: give 10s, 10m, 10h or 10d"),
        ("newNodes(\"2d\")", "the period 2d is not in 1s to 1d"),
        (
            "demand.percentile(0.95, \"1h\")",
            "the percentile is a number from 1 to 100, as in demand.percentile(95, \"1h\")",
        ),
        (
            "demand.percentile(95)",
            "demand.percentile takes a percentage and a period, as in demand.percentile(95, \"1h\")",
        ),
        ("demand.max()", "demand.max takes a period, as in demand.max(\"1h\")"),
        (
            "demand.median(\"1h\")",
            "unknown function of demand \"median\": expected percentile, max, min, mean",
        ),
        (
            "now.getHours(\"Europe/Berlin\")",
            "now.getHours takes no time zone, because now is in UTC: shift hours, as in (now.getHours() + 2) % 24",
        ),
        ("now.getHour()", "unknown function of now \"getHour\": did you mean getHours?"),
        ("now", "expected a number, got the time now: read a field, as in now.getHours()"),
        (
            "bucket",
            "expected a number, got the name bucket: compare it, as in bucket == \"m5.xlarge\"",
        ),
        (
            "demand > 4",
            "expected a number, got a condition: choose a number by it, as in demand > 4 ? 2 : 1",
        ),
        ("demand ? 2 : 1", "expected a condition, such as demand > 4, got demand"),
        ("demnd ? 2 : 1", "unknown variable \"demnd\": did you mean demand?"),
        (
            "bucket.startWith(\"p4d.\") ? 0 : 1",
            "unknown function of bucket \"startWith\": did you mean startsWith?",
        ),
        (
            "bucket.contains(\"p4d.\")",
            "bucket.contains takes a text and is a condition, as in bucket.contains(\"m5\") ? 2 : 1",
        ),
        (
            "contains(bucket, \"p4d.\") ? 0 : 1",
            "contains is a function of bucket, as in bucket.contains(\"m5\")",
        ),
        (
            "8 <= demand <= 18 ? 2 : 1",
            "expected numbers to compare, got a condition: compare twice, as in 8 <= demand && demand <= 18",
        ),
        ("demand() + 1", "demand is a variable: write it without parentheses"),
        ("getHours()", "getHours is a function of now, as in now.getHours()"),
        (
            "demand.max(1h)",
            "no valid CEL at 1:12: int literal has unexpected trailing characters: periods and names need quotes, as in \"1h\"",
        ),
        ("(1).ceil()", "only demand, now and bucket have functions, got ceil"),
        ("demand[1]", "nothing here has an index, got [ ]"),
        (
            "now.getHours >= 8 ? 2 : 1",
            "expected a number, got the field getHours: a function needs parentheses, as in getHours()",
        ),
        ("bucket in [“a”] ? 2 : 1", "no valid CEL at 1:12: unexpected character"),
        ("demand + 1 ? 2 : 1", "expected a condition, such as demand > 4, got a number"),
        ("true", "expected a number, got a condition"),
        ("\"a\"", "expected a number, got a text"),
        ("bucket == 3 ? 2 : 1", "expected bucket or a text, such as \"m5.xlarge\""),
        ("demand == \"a\" ? 2 : 1", "expected a number, got a text"),
        ("demand in 4 ? 2 : 1", "expected a list after in, such as [8, 9, 10]"),
        ("demand.nodes", "expected a number, got the field nodes, but variables have no fields"),
        ("[1, 2].map(x, x)", "expected a number, got a macro, which is not supported"),
    ];
    for (text, expected) in cases {
        assert_eq!(value(text), Err(expected.to_owned()), "{text}");
    }
}

/// A deep expression would overflow the stack, and a long one would take long to evaluate.
#[test]
fn long_and_deep_expressions_are_refused() {
    let sum = |terms: usize| vec!["1"; terms].join("+");
    assert_eq!(value(&sum(128)), Ok(128));
    let too_deep = Err("operators are nested more than 128 deep".to_owned());
    assert_eq!(value(&sum(129)), too_deep);
    assert_eq!(value(&format!("{}1", "true?1:".repeat(128))), too_deep);
    let nested = |calls: usize| format!("{}2{}", "max(1,".repeat(calls), ")".repeat(calls));
    assert_eq!(value(&nested(32)), Ok(2));
    let too_nested = Err("parentheses and calls are nested more than 32 deep".to_owned());
    assert_eq!(value(&nested(33)), too_nested);
    assert_eq!(value(&sum(1_000)), Err("expected at most 1024 characters, got 1999".to_owned()));
    let periods = |minutes: u32| {
        let all: Vec<String> =
            (1..=minutes).map(|minute| format!("newNodes(\"{minute}m\")")).collect();
        all.join("+")
    };
    assert_eq!(value(&periods(8)), Ok(36));
    let too_many = Err("expected at most 8 different statistics of the past".to_owned());
    assert_eq!(value(&periods(9)), too_many);
}

proptest! {
    #[test]
    fn no_text_panics(text in "[a-zA-Z0-9_ .,(){}\\[\\]?:<>=!&|\"'`\\\\+*/%-]{0,60}", any in ".{0,40}") {
        // Only panics matter.
        _ = (value(&text), value(&any));
    }
}
