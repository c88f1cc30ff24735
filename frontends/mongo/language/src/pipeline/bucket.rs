//! `$bucket` and `$bucketAuto`: groups by ranges of a value.

use bson::{Bson, Document, doc};
use tessera_core::deadline;

use super::StageContext;
use super::environment::BATCH;
use super::group::Group;
use super::kept::Kept;
use super::sort::Sort;
use super::stage::Stage;
use super::step::Step;
use crate::collation::Collation;
use crate::compare::{compare, type_order};
use crate::error::Result;
use crate::expression::accumulator::Accumulator;
use crate::expression::{Context, Expression, ParseContext, Variables, fail};
use crate::number::Number;
use crate::size::footprint;

type Fields = Vec<(String, Accumulator)>;

/// The fields of `output`, or a count if there is none.
fn parse_output(output: Option<&Bson>, context: &Context, not_object: i32) -> Result<Fields> {
    let count = doc! { "count": { "$sum": 1 } };
    let output = match output {
        None => &count,
        Some(Bson::Document(output)) => output,
        Some(_) => return fail(not_object, "The 'output' field must be an object"),
    };
    let mut fields = Vec::with_capacity(output.len());
    for (name, value) in output {
        if name == "_id" {
            return fail(15948, "a group's _id may only be specified once");
        }
        fields.push((name.clone(), Accumulator::parse(name, value, context)?));
    }
    Ok(fields)
}

fn is_expression(value: &Bson) -> bool {
    match value {
        Bson::String(path) => path.starts_with('$'),
        Bson::Document(expression) => expression
            .keys()
            .next()
            .is_some_and(|name| name.starts_with('$')),
        _ => false,
    }
}

/// `$bucket`: a group by a `$switch` over the boundaries, then a sort.
pub(super) fn parse_bucket(argument: &Bson, at: &StageContext<'_>) -> Result<Vec<Stage>> {
    let Bson::Document(options) = argument else {
        return fail(40201, "Argument to $bucket stage must be an object");
    };
    let context = ParseContext::from(at.context);
    let (mut group_by, mut boundaries, mut default, mut output) = (None, Vec::new(), None, None);
    for (name, value) in options {
        match name.as_str() {
            "groupBy" if is_expression(value) => group_by = Some(value),
            "groupBy" => return fail(40202, "The $bucket 'groupBy' field must be an expression"),
            "boundaries" => boundaries = parse_boundaries(value, &context)?,
            "default" => {
                default = Some(match constant(value, &context)? {
                    Some(value) => value,
                    None => return fail(40195, "The $bucket 'default' field must be a constant"),
                });
            }
            "output" => output = Some(value),
            _ => return fail(40197, format!("Unrecognized option to $bucket: {name}.")),
        }
    }
    let fields = parse_output(output, at.context, 40196)?;
    let (Some(group_by), Some(lowest), Some(highest)) =
        (group_by, boundaries.first(), boundaries.last())
    else {
        return fail(
            40198,
            "$bucket requires 'groupBy' and 'boundaries' to be specified.",
        );
    };
    if let Some(default) = &default {
        let order = |other| compare(default, other, context.collation());
        if order(lowest).is_ge() && order(highest).is_lt() {
            return fail(
                40199,
                "The $bucket 'default' field must lie outside of the boundaries.",
            );
        }
    }
    let id = Expression::parse(&switch(group_by, &boundaries, default), &context)?;
    let sort = Sort::new(doc! { "_id": 1 });
    Ok(vec![
        Stage::Group(Group::new(id, fields)),
        Stage::Sort(sort),
    ])
}

fn switch(group_by: &Bson, boundaries: &[Bson], default: Option<Bson>) -> Bson {
    let literal = |value: &Bson| doc! { "$literal": value.clone() };
    let branch = |pair: &[Bson]| match pair {
        [low, high] => Some(doc! {
            "case": { "$and": [
                { "$gte": [group_by.clone(), literal(low)] },
                { "$lt": [group_by.clone(), literal(high)] },
            ] },
            "then": literal(low),
        }),
        _ => None,
    };
    let branches: Vec<Document> = boundaries.windows(2).filter_map(branch).collect();
    let mut switch = doc! { "branches": branches };
    if let Some(default) = default {
        switch.insert("default", literal(&default));
    }
    Bson::Document(doc! { "$switch": switch })
}

fn constant(value: &Bson, context: &ParseContext<'_>) -> Result<Option<Bson>> {
    let expression = Expression::parse(value, context)?;
    Ok(expression
        .as_constant()
        .map(|value| value.cloned().unwrap_or(Bson::Null)))
}

fn parse_boundaries(value: &Bson, context: &ParseContext<'_>) -> Result<Vec<Bson>> {
    let Bson::Array(items) = value else {
        return fail(40200, "The $bucket 'boundaries' field must be an array");
    };
    let mut boundaries = Vec::with_capacity(items.len());
    for item in items {
        match constant(item, context)? {
            Some(boundary) => boundaries.push(boundary),
            None => return fail(40191, "The $bucket 'boundaries' must be constant values"),
        }
    }
    if boundaries.len() < 2 {
        return fail(
            40192,
            "The $bucket 'boundaries' field must have at least 2 values",
        );
    }
    for pair in boundaries.windows(2) {
        let [low, high] = pair else { continue };
        if type_order(low) != type_order(high) {
            return fail(40193, "All values in 'boundaries' must have the same type");
        }
        if compare(low, high, context.collation()).is_ge() {
            return fail(40194, "The 'boundaries' option to $bucket must be sorted");
        }
    }
    Ok(boundaries)
}

/// `$bucketAuto`: so many groups of about as many documents each.
#[derive(Clone, Debug, PartialEq)]
pub struct BucketAuto {
    group_by: Expression,
    buckets: usize,
    fields: Fields,
    granularity: Option<Granularity>,
}

/// Numbers that boundaries are rounded to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Granularity {
    PowersOfTwo,
    /// Steps from 1 to 10, which repeat with each power of ten.
    Series(&'static [f64]),
}

const SERIES: &[(&str, &[f64])] = &[
    ("R5", &[10., 16., 25., 40., 63.]),
    (
        "R10",
        &[100., 125., 160., 200., 250., 315., 400., 500., 630., 800.],
    ),
    (
        "R20",
        &[
            100., 112., 125., 140., 160., 180., 200., 224., 250., 280., 315., 355., 400., 450.,
            500., 560., 630., 710., 800., 900.,
        ],
    ),
    (
        "R40",
        &[
            100., 106., 112., 118., 125., 132., 140., 150., 160., 170., 180., 190., 200., 212.,
            224., 236., 250., 265., 280., 300., 315., 335., 355., 375., 400., 425., 450., 475.,
            500., 530., 560., 600., 630., 670., 710., 750., 800., 850., 900., 950.,
        ],
    ),
    (
        "R80",
        &[
            103., 109., 115., 122., 128., 136., 145., 155., 165., 175., 185., 195., 206., 218.,
            230., 243., 258., 272., 290., 307., 325., 345., 365., 387., 412., 437., 462., 487.,
            515., 545., 575., 615., 650., 690., 730., 775., 825., 875., 925., 975.,
        ],
    ),
    ("1-2-5", &[10., 20., 50.]),
    ("E6", &[10., 15., 22., 33., 47., 68.]),
    (
        "E12",
        &[10., 12., 15., 18., 22., 27., 33., 39., 47., 56., 68., 82.],
    ),
    (
        "E24",
        &[
            10., 11., 12., 13., 15., 16., 18., 20., 22., 24., 27., 30., 33., 36., 39., 43., 47.,
            51., 56., 62., 68., 75., 82., 91.,
        ],
    ),
    (
        "E48",
        &[
            100., 105., 110., 115., 121., 127., 133., 140., 147., 154., 162., 169., 178., 187.,
            196., 205., 215., 226., 237., 249., 261., 274., 287., 301., 316., 332., 348., 365.,
            383., 402., 422., 442., 464., 487., 511., 536., 562., 590., 619., 649., 681., 715.,
            750., 787., 825., 866., 909., 953.,
        ],
    ),
    (
        "E96",
        &[
            100., 102., 105., 107., 110., 113., 115., 118., 121., 124., 127., 130., 133., 137.,
            140., 143., 147., 150., 154., 158., 162., 165., 169., 174., 178., 182., 187., 191.,
            196., 200., 205., 210., 215., 221., 226., 232., 237., 243., 249., 255., 261., 267.,
            274., 280., 287., 294., 301., 309., 316., 324., 332., 340., 348., 357., 365., 374.,
            383., 392., 402., 412., 422., 432., 442., 453., 464., 475., 487., 499., 511., 523.,
            536., 549., 562., 576., 590., 604., 619., 634., 649., 665., 681., 698., 715., 732.,
            750., 768., 787., 806., 825., 845., 866., 887., 909., 931., 953., 976.,
        ],
    ),
    (
        "E192",
        &[
            100., 101., 102., 104., 105., 106., 107., 109., 110., 111., 113., 114., 115., 117.,
            118., 120., 121., 123., 124., 126., 127., 129., 130., 132., 133., 135., 137., 138.,
            140., 142., 143., 145., 147., 149., 150., 152., 154., 156., 158., 160., 162., 164.,
            165., 167., 169., 172., 174., 176., 178., 180., 182., 184., 187., 189., 191., 193.,
            196., 198., 200., 203., 205., 208., 210., 213., 215., 218., 221., 223., 226., 229.,
            232., 234., 237., 240., 243., 246., 249., 252., 255., 258., 261., 264., 267., 271.,
            274., 277., 280., 284., 287., 291., 294., 298., 301., 305., 309., 312., 316., 320.,
            324., 328., 332., 336., 340., 344., 348., 352., 357., 361., 365., 370., 374., 379.,
            383., 388., 392., 397., 402., 407., 412., 417., 422., 427., 432., 437., 442., 448.,
            453., 459., 464., 470., 475., 481., 487., 493., 499., 505., 511., 517., 523., 530.,
            536., 542., 549., 556., 562., 569., 576., 583., 590., 597., 604., 612., 619., 626.,
            634., 642., 649., 657., 665., 673., 681., 690., 698., 706., 715., 723., 732., 741.,
            750., 759., 768., 777., 787., 796., 806., 816., 825., 835., 845., 856., 866., 876.,
            887., 898., 909., 920., 931., 942., 953., 965., 976., 988.,
        ],
    ),
];

impl Granularity {
    fn parse(name: &str) -> Result<Self> {
        if name == "POWERSOF2" {
            return Ok(Self::PowersOfTwo);
        }
        match SERIES.iter().find(|(known, _)| *known == name) {
            Some((_, steps)) => Ok(Self::Series(steps)),
            None => fail(40257, format!("Unknown rounding granularity '{name}'")),
        }
    }

    /// The next number of the granularity above the value, or below it.
    fn round(self, value: f64, up: bool) -> f64 {
        if value == 0.0 {
            return 0.0;
        }
        match self {
            Self::PowersOfTwo if up => value.log2().floor().exp2() * 2.0,
            Self::PowersOfTwo => (value.log2().ceil() - 1.0).exp2(),
            Self::Series(steps) => {
                let (Some(first), Some(last)) = (steps.first(), steps.last()) else {
                    return value;
                };
                // The power of ten at which the value lies among the steps.
                let mut scale = 1.0;
                while value >= first * 10.0 * scale {
                    scale *= 10.0;
                }
                while value < first * scale {
                    scale /= 10.0;
                }
                if up {
                    let above = steps
                        .iter()
                        .map(|step| step * scale)
                        .find(|step| *step > value);
                    above.unwrap_or(first * scale * 10.0)
                } else {
                    let mut below = steps.iter().rev().map(|step| step * scale);
                    below
                        .find(|step| *step < value)
                        .unwrap_or(last * scale / 10.0)
                }
            }
        }
    }
}

/// `$bucketAuto`.
pub(super) fn parse_bucket_auto(argument: &Bson, at: &StageContext<'_>) -> Result<Vec<Stage>> {
    let Bson::Document(options) = argument else {
        return fail(40240, "The argument to $bucketAuto must be an object");
    };
    let (mut group_by, mut buckets, mut output, mut granularity) = (None, None, None, None);
    for (name, value) in options {
        match (name.as_str(), value) {
            ("groupBy", value) if is_expression(value) => {
                group_by = Some(Expression::parse(value, &ParseContext::from(at.context))?);
            }
            ("groupBy", _) => return fail(40239, "'groupBy' must be a path or an expression"),
            ("buckets", value) => match Number::from_bson(value) {
                None => return fail(40241, "The 'buckets' field must be a numeric value"),
                Some(number) => match number.as_i32_exact().map(usize::try_from) {
                    None => return fail(40242, "'buckets' must be a 32-bit integer"),
                    Some(Ok(count)) if count > 0 => buckets = Some(count),
                    Some(_) => return fail(40243, "'buckets' must be greater than 0"),
                },
            },
            ("output", value) => output = Some(value),
            ("granularity", Bson::String(name)) => granularity = Some(Granularity::parse(name)?),
            ("granularity", _) => return fail(40261, "'granularity' must be a string"),
            _ => return fail(40245, format!("Unrecognized option to $bucketAuto: {name}")),
        }
    }
    let (Some(group_by), Some(buckets)) = (group_by, buckets) else {
        return fail(
            40246,
            "$bucketAuto requires 'groupBy' and 'buckets' to be specified",
        );
    };
    let is_given = |output: &&Bson| output.as_document().is_none_or(|output| !output.is_empty());
    let fields = parse_output(output.filter(is_given), at.context, 40244)?;
    Ok(vec![Stage::BucketAuto(BucketAuto {
        group_by,
        buckets,
        fields,
        granularity,
    })])
}

/// Documents by their values, until all are there.
pub(super) struct Bucketing {
    stage: BucketAuto,
    variables: Variables,
    collation: Collation,
    kept: Kept,
    held: Vec<(Bson, Document)>,
    finished: Option<std::vec::IntoIter<Document>>,
}

impl Bucketing {
    pub(super) fn new(
        stage: BucketAuto,
        variables: Variables,
        collation: Collation,
        memory_limit: usize,
    ) -> Self {
        let (held, finished) = (Vec::new(), None);
        Self {
            stage,
            variables,
            collation,
            kept: Kept::new(memory_limit),
            held,
            finished,
        }
    }

    /// A bucket of the next documents and its boundaries.
    fn bucket(&self, low: &Bson, high: &Bson, members: &[(Bson, Document)]) -> Result<Document> {
        let mut bucket = doc! { "_id": { "min": low.clone(), "max": high.clone() } };
        for (name, accumulator) in &self.stage.fields {
            let mut state = accumulator.start(&Document::new(), &self.variables)?;
            for (_, document) in members {
                state.add(accumulator.argument(document, &self.variables)?)?;
            }
            bucket.insert(name.clone(), state.value());
        }
        Ok(bucket)
    }

    fn buckets(&mut self) -> Result<Vec<Document>> {
        let mut held = std::mem::take(&mut self.held);
        deadline::sort_by(&mut held, |(a, _), (b, _)| compare(a, b, &self.collation))?;
        let count = self.stage.buckets;
        // Rounded to the nearest, so that the buckets are about equal.
        let wanted = ((held.len() * 2 + count) / (count * 2)).max(1);
        let mut buckets = Vec::new();
        let mut start = 0;
        let mut previous: Option<Bson> = None;
        while start < held.len() {
            let last_bucket = buckets.len() + 1 == count;
            let mut end = if last_bucket {
                held.len()
            } else {
                (start + wanted).min(held.len())
            };
            let value = |at: usize| held.get(at).map_or(&Bson::Null, |(value, _)| value);
            // Equal values stay together.
            while end < held.len() && compare(value(end), value(end - 1), &self.collation).is_eq() {
                end += 1;
            }
            let (low, high) = match self.stage.granularity {
                None if end < held.len() => (value(start).clone(), value(end).clone()),
                None => (value(start).clone(), value(end - 1).clone()),
                Some(granularity) => {
                    let low = previous.take().unwrap_or_else(|| {
                        Bson::Double(granularity.round(number(value(start)), false))
                    });
                    let high = granularity.round(number(value(end - 1)), true);
                    while end < held.len() && number(value(end)) < high {
                        end += 1;
                    }
                    (low, Bson::Double(high))
                }
            };
            let members = held.get(start..end).unwrap_or_default();
            buckets.push(self.bucket(&low, &high, members)?);
            previous = Some(high);
            start = end;
        }
        Ok(buckets)
    }
}

fn number(value: &Bson) -> f64 {
    Number::from_bson(value).map_or(0.0, Number::to_f64)
}

impl Step for Bucketing {
    fn take(&mut self, document: Document, _: &mut Vec<Document>) -> Result<()> {
        let value = self.stage.group_by.evaluate(&document, &self.variables)?;
        let value = value.unwrap_or(Bson::Null);
        if self.stage.granularity.is_some() {
            let message = "$bucketAuto can specify a 'granularity' with";
            match Number::from_bson(&value).map(Number::to_f64) {
                None => return fail(40258, format!("{message} numeric boundaries only")),
                Some(number) if number.is_nan() => {
                    return fail(40259, format!("{message} numbers only, but found a NaN"));
                }
                Some(number) if number < 0.0 => {
                    return fail(40260, format!("{message} non-negative numbers only"));
                }
                Some(_) => {}
            }
        }
        if !self.kept.add_document(&document, footprint(&value)) {
            return fail(292, "Exceeded memory limit for $bucketAuto");
        }
        self.held.push((value, document));
        Ok(())
    }

    fn drain(&mut self, output: &mut Vec<Document>) -> Result<()> {
        let mut finished = match self.finished.take() {
            Some(finished) => finished,
            None => self.buckets()?.into_iter(),
        };
        output.extend(finished.by_ref().take(BATCH));
        self.finished = Some(finished);
        Ok(())
    }
}
