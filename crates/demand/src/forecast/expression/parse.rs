//! From the text of an expression to its tree, by the parser of the crate `cel`.
//!
//! Only the parser is used. The interpreter of the crate has no limit on recursion, and reports
//! wrong names and types only where they are evaluated.

use base::input::instead_of;
use base::span::Span;
use cel::common::ast::{CallExpr, Expr, LiteralValue, operators};
use cel::parser::PrattParser;
use cel::{IdedExpr, ParseErrors};

use super::tree::{
    Comparison, Condition, Field, Number, Operator, Relation, Rounding, Statistic, StatisticKind,
    Text,
};

/// The deepest nesting of parentheses and calls, which the parser counts.
const PARENTHESES_MAX: u16 = 32;

/// The deepest nesting of operators. A sum of this many terms is as deep.
const DEPTH_MAX: usize = 128;

/// The most different statistics of one expression, because each reads all ticks of its period.
const STATISTICS_MAX: usize = 8;

/// The longest period of a statistic.
const PERIOD_MAX_SECONDS: i64 = 86_400;

const VARIABLES: [&str; 6] = ["demand", "forecast", "cores", "price", "bucket", "now"];
const FUNCTIONS: [&str; 8] = ["min", "max", "ceil", "floor", "round", "int", "double", "newNodes"];
const OF_DEMAND: [&str; 4] = ["percentile", "max", "min", "mean"];
const OF_NOW: [(&str, Field); 6] = [
    ("getMinutes", Field::Minutes),
    ("getHours", Field::Hours),
    ("getDayOfWeek", Field::DayOfWeek),
    ("getDayOfMonth", Field::DayOfMonth),
    ("getDate", Field::Date),
    ("getMonth", Field::Month),
];
const OF_BUCKET: [(&str, Relation); 3] = [
    ("startsWith", Relation::StartsWith),
    ("endsWith", Relation::EndsWith),
    ("contains", Relation::Contains),
];

/// A parsed expression.
pub(super) struct Parsed {
    pub tree: Number,
    /// The statistics to which the tree refers.
    pub statistics: Vec<Statistic>,
    pub reads_forecast: bool,
}

/// Parses an expression.
///
/// # Errors
/// The text is not a valid expression whose value is a number.
pub(super) fn parse(text: &str) -> Result<Parsed, String> {
    let parser = PrattParser::new().max_recursion_depth(PARENTHESES_MAX);
    let parsed = parser.parse(text).map_err(|errors| of_syntax(&errors))?;
    let reads_forecast = parsed.references().has_variable("forecast");
    let mut checked = Checked::default();
    let tree = checked.number(&parsed, 0)?;
    Ok(Parsed { tree, statistics: checked.statistics, reads_forecast })
}

/// The first error of the parser, in one line.
fn of_syntax(errors: &ParseErrors) -> String {
    let all = || errors.errors.iter();
    if all().any(|error| error.msg.contains("recursion limit")) {
        return format!("parentheses and calls are nested more than {PARENTHESES_MAX} deep");
    }
    // Errors of the parser as a whole have no place, and are consequences of the others.
    let Some(first) = all().find(|error| error.pos.0 > 0).or_else(|| all().next()) else {
        return "expected an expression of CEL".into();
    };
    let (row, column) = first.pos;
    let problem = first.msg.trim_start_matches("Syntax error: ");
    let hint = if problem.contains("trailing characters") {
        ": periods and names need quotes, as in \"1h\""
    } else {
        ""
    };
    format!("no valid CEL at {row}:{column}: {problem}{hint}")
}

/// The type of an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Number,
    Condition,
    Text,
}

/// Guesses the type of an expression from its outermost operator. The conversion checks it.
fn type_of(expr: &IdedExpr) -> Type {
    match &expr.expr {
        Expr::Literal(LiteralValue::String(_)) => Type::Text,
        Expr::Ident(name) if name == "bucket" => Type::Text,
        Expr::Literal(LiteralValue::Boolean(_)) => Type::Condition,
        Expr::Call(call) if call.func_name == operators::CONDITIONAL => {
            call.args.get(1).map_or(Type::Number, type_of)
        }
        Expr::Call(call) if is_condition(&call.func_name) => Type::Condition,
        _ => Type::Number,
    }
}

/// Whether an operator or a function has a condition as its value.
fn is_condition(name: &str) -> bool {
    let logical =
        [operators::LOGICAL_AND, operators::LOGICAL_OR, operators::LOGICAL_NOT, operators::IN];
    logical.contains(&name) || comparison(name).is_some() || relation(name).is_some()
}

fn comparison(name: &str) -> Option<Comparison> {
    Some(match name {
        operators::EQUALS => Comparison::Equal,
        operators::NOT_EQUALS => Comparison::NotEqual,
        operators::LESS => Comparison::Less,
        operators::LESS_EQUALS => Comparison::AtMost,
        operators::GREATER => Comparison::Greater,
        operators::GREATER_EQUALS => Comparison::AtLeast,
        _ => return None,
    })
}

fn relation(name: &str) -> Option<Relation> {
    OF_BUCKET.iter().find(|(known, _)| *known == name).map(|(_, relation)| *relation)
}

fn arithmetic(name: &str) -> Option<Operator> {
    Some(match name {
        operators::ADD => Operator::Add,
        operators::SUBSTRACT => Operator::Subtract,
        operators::MULTIPLY => Operator::Multiply,
        operators::DIVIDE => Operator::Divide,
        operators::MODULO => Operator::Remainder,
        _ => return None,
    })
}

fn rounding(name: &str) -> Option<Rounding> {
    Some(match name {
        "ceil" => Rounding::Up,
        "floor" => Rounding::Down,
        "round" => Rounding::Nearest,
        "int" => Rounding::Truncated,
        _ => return None,
    })
}

/// The conversion of parsed expressions, with the statistics that were found so far.
#[derive(Default)]
struct Checked {
    statistics: Vec<Statistic>,
}

impl Checked {
    fn number(&mut self, expr: &IdedExpr, depth: usize) -> Result<Number, String> {
        let depth = deeper(depth)?;
        if let Some(value) = constant(expr) {
            return Ok(Number::Constant(value));
        }
        match &expr.expr {
            Expr::Ident(name) => variable(name),
            Expr::Call(call) => self.number_of_call(call, depth),
            other => Err(format!("expected a number, got {}", kind(other))),
        }
    }

    fn boxed(&mut self, expr: &IdedExpr, depth: usize) -> Result<Box<Number>, String> {
        self.number(expr, depth).map(Box::new)
    }

    fn numbers(&mut self, exprs: &[IdedExpr], depth: usize) -> Result<Vec<Number>, String> {
        exprs.iter().map(|expr| self.number(expr, depth)).collect()
    }

    fn number_of_call(&mut self, call: &CallExpr, depth: usize) -> Result<Number, String> {
        let CallExpr { func_name: name, target, args } = call;
        if let Some(target) = target {
            return match &target.expr {
                Expr::Ident(of) if of == "demand" => self.of_demand(name, args),
                Expr::Ident(of) if of == "now" => of_now(name, args),
                Expr::Ident(of) if of == "bucket" => Err(wrong_function_of_bucket(name)),
                Expr::Ident(of) => {
                    variable(of)?;
                    Err(format!("{of} has no functions, got {of}.{name}"))
                }
                _ => Err(format!("only demand, now and bucket have functions, got {name}")),
            };
        }
        match (name.as_str(), args.as_slice()) {
            (name, [left, right]) if let Some(operator) = arithmetic(name) => {
                let left = self.boxed(left, depth)?;
                Ok(Number::Binary(operator, left, self.boxed(right, depth)?))
            }
            (operators::NEGATE, [of]) => Ok(Number::Negative(self.boxed(of, depth)?)),
            (operators::CONDITIONAL, [condition, yes, no]) => {
                let condition = self.condition(condition, depth)?;
                let yes = self.boxed(yes, depth)?;
                Ok(Number::If(Box::new(condition), yes, self.boxed(no, depth)?))
            }
            (name, [of]) if let Some(rounding) = rounding(name) => {
                Ok(Number::Rounded(rounding, self.boxed(of, depth)?))
            }
            ("double", [of]) => self.number(of, depth),
            ("min", [_, ..]) => Ok(Number::Least(self.numbers(args, depth)?)),
            ("max", [_, ..]) => Ok(Number::Most(self.numbers(args, depth)?)),
            ("newNodes", [over]) => self.past(StatisticKind::NewNodes, over),
            ("newNodes", _) => Err("newNodes takes a period, as in newNodes(\"10m\")".into()),
            ("min" | "max", []) => Err(format!("{name} takes at least one number, got none")),
            (name, _) if FUNCTIONS.contains(&name) => {
                Err(format!("{name} takes one number, got {}", args.len()))
            }
            (name, _) if relation(name).is_some() => {
                Err(format!("{name} is a function of bucket, as in bucket.{name}(\"m5\")"))
            }
            (name, _) if is_condition(name) => Err(
                "expected a number, got a condition: choose a number by it, as in demand > 4 ? 2 : 1".into(),
            ),
            (operators::INDEX, _) => Err("nothing here has an index, got [ ]".into()),
            (name, _) if VARIABLES.contains(&name) => {
                Err(format!("{name} is a variable: write it without parentheses"))
            }
            (name, _) if OF_NOW.iter().any(|(known, _)| *known == name) => {
                Err(format!("{name} is a function of now, as in now.{name}()"))
            }
            (name, _) => Err(unknown("function", name, &FUNCTIONS)),
        }
    }

    fn of_demand(&mut self, name: &str, args: &[IdedExpr]) -> Result<Number, String> {
        let example = "as in demand.percentile(95, \"1h\")";
        match (name, args) {
            ("max", [over]) => self.past(StatisticKind::Max, over),
            ("min", [over]) => self.past(StatisticKind::Min, over),
            ("mean", [over]) => self.past(StatisticKind::Mean, over),
            ("percentile", [percent, over]) => {
                let percent = constant(percent).filter(|percent| (1.0..=100.0).contains(percent));
                let expected = || format!("the percentile is a number from 1 to 100, {example}");
                self.past(StatisticKind::Percentile(percent.ok_or_else(expected)?), over)
            }
            ("percentile", _) => {
                Err(format!("demand.percentile takes a percentage and a period, {example}"))
            }
            _ if OF_DEMAND.contains(&name) => {
                Err(format!("demand.{name} takes a period, as in demand.{name}(\"1h\")"))
            }
            _ => Err(unknown("function of demand", name, &OF_DEMAND)),
        }
    }

    /// A statistic, which is shared with an equal one.
    fn past(&mut self, kind: StatisticKind, over: &IdedExpr) -> Result<Number, String> {
        let statistic = Statistic { kind, seconds: period(over)? };
        let known = self.statistics.iter().position(|known| *known == statistic);
        let index = known.unwrap_or(self.statistics.len());
        if known.is_none() {
            self.statistics.push(statistic);
        }
        if self.statistics.len() > STATISTICS_MAX {
            return Err(format!(
                "expected at most {STATISTICS_MAX} different statistics of the past"
            ));
        }
        Ok(Number::Past(index))
    }

    fn condition(&mut self, expr: &IdedExpr, depth: usize) -> Result<Condition, String> {
        let depth = deeper(depth)?;
        let expected = |got: &str| format!("expected a condition, such as demand > 4, got {got}");
        let call = match &expr.expr {
            Expr::Literal(LiteralValue::Boolean(value)) => {
                return Ok(Condition::Constant(*value.inner()));
            }
            Expr::Call(call) => call,
            Expr::Ident(name) if !VARIABLES.contains(&name.as_str()) => {
                return Err(unknown("variable", name, &VARIABLES));
            }
            Expr::Ident(name) => return Err(expected(name)),
            other => return Err(expected(&kind(other))),
        };
        let mut boxed = |expr| self.condition(expr, depth).map(Box::new);
        let CallExpr { func_name: name, target, args } = call;
        match (name.as_str(), target, args.as_slice()) {
            (operators::LOGICAL_NOT, None, [of]) => Ok(Condition::Not(boxed(of)?)),
            (operators::LOGICAL_AND, None, [left, right]) => {
                Ok(Condition::And(boxed(left)?, boxed(right)?))
            }
            (operators::LOGICAL_OR, None, [left, right]) => {
                Ok(Condition::Or(boxed(left)?, boxed(right)?))
            }
            (operators::CONDITIONAL, None, [of, yes, no]) => {
                Ok(Condition::If(boxed(of)?, boxed(yes)?, boxed(no)?))
            }
            (operators::IN, None, [of, list]) => self.one_of(of, list, depth),
            (name, None, [left, right]) if let Some(comparison) = comparison(name) => {
                self.compared(comparison, left, right, depth)
            }
            (name, Some(of), [other]) if let Some(relation) = relation(name) => {
                Ok(Condition::Texts(relation, text(of)?, text(other)?))
            }
            _ => {
                self.number_of_call(call, depth)?;
                Err(expected("a number"))
            }
        }
    }

    fn compared(
        &mut self,
        comparison: Comparison,
        left: &IdedExpr,
        right: &IdedExpr,
        depth: usize,
    ) -> Result<Condition, String> {
        let relation = match comparison {
            Comparison::Equal => Some(Relation::Equal),
            Comparison::NotEqual => Some(Relation::NotEqual),
            _ => None,
        };
        match (type_of(left), relation) {
            (Type::Text, Some(relation)) => {
                Ok(Condition::Texts(relation, text(left)?, text(right)?))
            }
            (Type::Condition, None) => Err(
                "expected numbers to compare, got a condition: compare twice, as in 8 <= demand && demand <= 18".into(),
            ),
            (Type::Condition, Some(relation)) => {
                let left = Box::new(self.condition(left, depth)?);
                let equal = Condition::Equal(left, Box::new(self.condition(right, depth)?));
                Ok(match relation {
                    Relation::NotEqual => Condition::Not(Box::new(equal)),
                    _ => equal,
                })
            }
            _ => {
                let left = self.boxed(left, depth)?;
                Ok(Condition::Compared(comparison, left, self.boxed(right, depth)?))
            }
        }
    }

    fn one_of(
        &mut self,
        of: &IdedExpr,
        list: &IdedExpr,
        depth: usize,
    ) -> Result<Condition, String> {
        let Expr::List(list) = &list.expr else {
            return Err("expected a list after in, such as [8, 9, 10]".into());
        };
        if type_of(of) == Type::Text {
            let texts: Result<_, String> = list.elements.iter().map(text).collect();
            return Ok(Condition::TextIn(text(of)?, texts?));
        }
        Ok(Condition::In(self.boxed(of, depth)?, self.numbers(&list.elements, depth)?))
    }
}

fn deeper(depth: usize) -> Result<usize, String> {
    let next = depth + 1;
    let too_deep = || format!("operators are nested more than {DEPTH_MAX} deep");
    (next <= DEPTH_MAX).then_some(next).ok_or_else(too_deep)
}

/// The value of a literal that is a number.
#[expect(clippy::cast_precision_loss, reason = "all numbers are doubles")]
fn constant(expr: &IdedExpr) -> Option<f64> {
    let Expr::Literal(literal) = &expr.expr else { return None };
    match literal {
        LiteralValue::Int(value) => Some(*value.inner() as f64),
        LiteralValue::UInt(value) => Some(*value.inner() as f64),
        LiteralValue::Double(value) => Some(*value.inner()),
        _ => None,
    }
}

fn variable(name: &str) -> Result<Number, String> {
    match name {
        "demand" => Ok(Number::Demand),
        "forecast" => Ok(Number::Forecast),
        "cores" => Ok(Number::Cores),
        "price" => Ok(Number::Price),
        "bucket" => {
            Err("expected a number, got the name bucket: compare it, as in bucket == \"m5.xlarge\""
                .into())
        }
        "now" => {
            Err("expected a number, got the time now: read a field, as in now.getHours()".into())
        }
        _ => Err(unknown("variable", name, &VARIABLES)),
    }
}

fn of_now(name: &str, args: &[IdedExpr]) -> Result<Number, String> {
    let field = OF_NOW.iter().find(|(known, _)| *known == name);
    match (field, args) {
        (Some((_, field)), []) => Ok(Number::Now(*field)),
        (Some(_), _) => Err(format!(
            "now.{name} takes no time zone, because now is in UTC: shift hours, as in (now.getHours() + 2) % 24"
        )),
        (None, _) => Err(unknown("function of now", name, &OF_NOW.map(|(name, _)| name))),
    }
}

fn wrong_function_of_bucket(name: &str) -> String {
    match relation(name) {
        Some(_) => format!(
            "bucket.{name} takes a text and is a condition, as in bucket.{name}(\"m5\") ? 2 : 1"
        ),
        None => unknown("function of bucket", name, &OF_BUCKET.map(|(name, _)| name)),
    }
}

/// Returns the seconds of a period: a text such as "1h", or such a text in `duration`.
fn period(expr: &IdedExpr) -> Result<i64, String> {
    let text = match &expr.expr {
        Expr::Call(CallExpr { func_name, target: None, args })
            if func_name == "duration" && args.len() == 1 =>
        {
            &args[0].expr
        }
        other => other,
    };
    let Expr::Literal(LiteralValue::String(text)) = text else {
        return Err("a period is a text, such as \"10m\" or \"1h\"".into());
    };
    let seconds = text.inner().parse::<Span>()?.as_seconds();
    if (1..=PERIOD_MAX_SECONDS).contains(&seconds) {
        return Ok(seconds);
    }
    Err(format!("the period {} is not in 1s to {}d", text.inner(), PERIOD_MAX_SECONDS / 86_400))
}

fn text(expr: &IdedExpr) -> Result<Text, String> {
    match &expr.expr {
        Expr::Ident(name) if name == "bucket" => Ok(Text::Bucket),
        Expr::Ident(name) if !VARIABLES.contains(&name.as_str()) => {
            Err(unknown("variable", name, &VARIABLES))
        }
        Expr::Literal(LiteralValue::String(text)) => Ok(Text::Constant(text.inner().to_owned())),
        _ => Err("expected bucket or a text, such as \"m5.xlarge\"".into()),
    }
}

/// A name for what an expression is, for errors.
fn kind(expr: &Expr) -> String {
    match expr {
        Expr::Literal(LiteralValue::String(_)) => "a text".into(),
        Expr::Literal(LiteralValue::Boolean(_)) => "a condition".into(),
        Expr::Literal(LiteralValue::Null) => "null".into(),
        Expr::Literal(LiteralValue::Bytes(_)) => "bytes".into(),
        Expr::Literal(_) | Expr::Call(_) => "a number".into(),
        Expr::Ident(_) => "a variable".into(),
        Expr::List(_) => "a list".into(),
        Expr::Map(_) | Expr::Struct(_) => "a map".into(),
        Expr::Select(select) => {
            let field = &select.field;
            let functions = OF_NOW.map(|(name, _)| name);
            if functions.iter().chain(&OF_DEMAND).any(|known| known == field) {
                format!("the field {field}: a function needs parentheses, as in {field}()")
            } else {
                format!("the field {field}, but variables have no fields")
            }
        }
        Expr::Comprehension(_) => "a macro, which is not supported".into(),
        Expr::Unspecified => "nothing".into(),
    }
}

fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    format!("unknown {what} {name:?}: {}", instead_of(name, known))
}
