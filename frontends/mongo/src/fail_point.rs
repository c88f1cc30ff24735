//! `failCommand` makes commands fail and `failGetMoreAfterCursorCheckout` every `getMore`, for the
//! tests of drivers. Available only with `enable-test-commands`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bson::{Bson, Document};
use tessera_mongo_language::error::{Code, bad_value, type_mismatch};

use crate::failure::{Failure, Result};

/// The fail points there are.
#[derive(Debug, Default)]
pub(crate) struct FailPoints {
    command: FailPoint,
    get_more: FailPoint,
}

#[derive(Debug, Default)]
struct FailPoint {
    /// So that requests need no lock as long as it is off.
    is_on: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    point: Option<FailCommand>,
    entered: i64,
}

#[derive(Clone, Debug)]
struct FailCommand {
    mode: Mode,
    commands: Vec<String>,
    application: Option<String>,
    namespace: Option<String>,
    effect: Effect,
}

#[derive(Clone, Debug, PartialEq)]
enum Mode {
    AlwaysOn,
    Times(i64),
    Skip(i64),
    Probability(f64),
}

/// What happens to a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Effect {
    /// It waits so long first.
    pub(crate) block: Option<Duration>,
    /// The connection is closed.
    pub(crate) close: bool,
    /// It fails with this code.
    pub(crate) code: Option<Code>,
    /// It is done, and this is in its reply.
    pub(crate) write_concern_error: Option<Document>,
    /// Instead of the labels that would follow from the code.
    pub(crate) labels: Option<Vec<String>>,
}

impl FailPoints {
    /// Sets a fail point; answers how often it was met before.
    pub(crate) fn configure(
        &self,
        name: &str,
        mode: &Bson,
        data: Option<&Document>,
    ) -> Result<i64> {
        let (point, is_get_more) = match name {
            "failCommand" => (&self.command, false),
            "failGetMoreAfterCursorCheckout" => (&self.get_more, true),
            _ => {
                let message = format!(
                    "{name} is not a fail point here; failCommand and \
                     failGetMoreAfterCursorCheckout are"
                );
                return Err(bad_value(message).into());
            }
        };
        let mut set = match parse_mode(mode)? {
            None => None,
            Some(mode) => Some(FailCommand::parse(mode, data)?),
        };
        if let (Some(set), true) = (&mut set, is_get_more) {
            set.check_code_only(name)?;
            set.commands = vec!["getMore".to_owned()];
        }
        Ok(point.set(set))
    }

    /// What happens to this command, if anything.
    pub(crate) fn meet(
        &self,
        command: &str,
        application: Option<&str>,
        namespace: &str,
    ) -> Option<Effect> {
        self.command.meet(command, application, namespace)
    }

    /// The code with which a `getMore` that has found its cursor fails, if it is to.
    pub(crate) fn meet_cursor(&self, application: Option<&str>, namespace: &str) -> Option<Code> {
        let effect = self.get_more.meet("getMore", application, namespace);
        effect.and_then(|effect| effect.code)
    }
}

impl FailPoint {
    /// Answers how often the one before was met.
    fn set(&self, point: Option<FailCommand>) -> i64 {
        let mut state = self.lock();
        self.is_on.store(point.is_some(), Ordering::Release);
        state.point = point;
        std::mem::take(&mut state.entered)
    }

    fn meet(&self, command: &str, application: Option<&str>, namespace: &str) -> Option<Effect> {
        if !self.is_on.load(Ordering::Acquire) {
            return None;
        }
        let mut state = self.lock();
        let point = state.point.as_mut()?;
        let wanted = point.application.as_deref();
        let meant = point.commands.iter().any(|name| name == command)
            && (wanted.is_none() || wanted == application)
            && point
                .namespace
                .as_deref()
                .is_none_or(|wanted| wanted == namespace);
        if !meant || !point.mode.strikes() {
            return None;
        }
        let effect = point.effect.clone();
        state.entered += 1;
        Some(effect)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mode {
    /// Whether it is this command's turn.
    fn strikes(&mut self) -> bool {
        match self {
            Self::AlwaysOn => true,
            Self::Times(left) => {
                *left -= 1;
                *left >= 0
            }
            Self::Skip(left) => {
                *left -= 1;
                *left < 0
            }
            Self::Probability(probability) => rand::random::<f64>() < *probability,
        }
    }
}

/// None: off.
fn parse_mode(mode: &Bson) -> Result<Option<Mode>> {
    let whole = |value: &Bson| match value {
        Bson::Int32(value) => Some(i64::from(*value)),
        Bson::Int64(value) => Some(*value),
        #[expect(clippy::cast_possible_truncation, reason = "a count of attempts")]
        Bson::Double(value) => Some(*value as i64),
        _ => None,
    };
    match mode {
        Bson::String(mode) if mode == "off" => return Ok(None),
        Bson::String(mode) if mode == "alwaysOn" => return Ok(Some(Mode::AlwaysOn)),
        Bson::Document(mode) => {
            if let Some(times) = mode.get("times").and_then(whole) {
                return Ok(Some(Mode::Times(times)));
            }
            if let Some(skip) = mode.get("skip").and_then(whole) {
                return Ok(Some(Mode::Skip(skip)));
            }
            let probability = mode.get("activationProbability");
            match probability {
                Some(Bson::Double(probability)) if (0.0..=1.0).contains(probability) => {
                    return Ok(Some(Mode::Probability(*probability)));
                }
                Some(Bson::Int32(probability @ 0..=1)) => {
                    return Ok(Some(Mode::Probability(f64::from(*probability))));
                }
                _ => {}
            }
        }
        _ => {}
    }
    Err(bad_value(format!("{mode} is not a mode of a fail point")).into())
}

impl FailCommand {
    fn parse(mode: Mode, data: Option<&Document>) -> Result<Self> {
        let none = Document::new();
        let data = data.unwrap_or(&none);
        let texts = |field: &str| -> Result<Option<Vec<String>>> {
            let Some(value) = data.get(field) else {
                return Ok(None);
            };
            let texts = value.as_array().and_then(|array| {
                let texts = array.iter().map(|text| text.as_str().map(str::to_owned));
                texts.collect::<Option<Vec<_>>>()
            });
            let wrong = || type_mismatch(format!("data.{field} must be an array of strings"));
            Ok(Some(texts.ok_or_else(wrong)?))
        };
        let blocks = data.get_bool("blockConnection").unwrap_or(false);
        let block_ms = data.get("blockTimeMS").and_then(|value| match value {
            Bson::Int32(value) => u64::try_from(*value).ok(),
            Bson::Int64(value) => u64::try_from(*value).ok(),
            _ => None,
        });
        if blocks && block_ms.is_none() {
            let message = "blockTimeMS must be a non-negative number when blockConnection is true";
            return Err(Failure::new(Code::INVALID_OPTIONS, message));
        }
        Ok(Self {
            mode,
            commands: texts("failCommands")?.unwrap_or_default(),
            application: data.get_str("appName").ok().map(str::to_owned),
            namespace: data.get_str("namespace").ok().map(str::to_owned),
            effect: Effect {
                block: block_ms.filter(|_| blocks).map(Duration::from_millis),
                close: data.get_bool("closeConnection").unwrap_or(false),
                code: data.get_i32("errorCode").ok().map(Code),
                write_concern_error: data.get_document("writeConcernError").ok().cloned(),
                labels: texts("errorLabels")?,
            },
        })
    }

    /// Refuses what does not end in a failure with a code.
    fn check_code_only(&self, name: &str) -> Result<()> {
        let code = self.effect.code;
        let expected = Effect {
            code,
            ..Effect::default()
        };
        if code.is_some() && self.effect == expected {
            return Ok(());
        }
        let message = format!("{name} takes an errorCode and nothing else that happens");
        Err(Failure::new(Code::INVALID_OPTIONS, message))
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn points(mode: impl Into<Bson>, data: Document) -> FailPoints {
        let points = FailPoints::default();
        points
            .configure("failCommand", &mode.into(), Some(&data))
            .unwrap();
        points
    }

    fn data() -> Document {
        doc! { "failCommands": ["find"], "errorCode": 10 }
    }

    #[test]
    fn modes_strike_as_often_as_they_say() {
        let check = |mode: Bson, expected: [bool; 4]| {
            let points = points(mode.clone(), data());
            let met = [(); 4].map(|()| points.meet("find", None, "a.b").is_some());
            assert_eq!(met, expected, "{mode}");
        };
        check("alwaysOn".into(), [true; 4]);
        check("off".into(), [false; 4]);
        check(doc! { "times": 2 }.into(), [true, true, false, false]);
        check(doc! { "skip": 3 }.into(), [false, false, false, true]);
        check(doc! { "activationProbability": 1.0 }.into(), [true; 4]);
        check(doc! { "activationProbability": 0.0 }.into(), [false; 4]);
    }

    #[test]
    fn only_the_commands_of_the_application_are_meant() {
        let mut data = data();
        data.insert("appName", "mine");
        let points = points(doc! { "times": 1 }, data);
        assert_eq!(points.meet("insert", Some("mine"), ""), None);
        assert_eq!(points.meet("find", Some("other"), ""), None);
        assert_eq!(points.meet("find", None, ""), None);
        let effect = points.meet("find", Some("mine"), "").unwrap();
        assert_eq!(effect.code, Some(Code(10)));
        let off = points.configure("failCommand", &"off".into(), None);
        assert_eq!(off.unwrap(), 1, "how often it was met");
    }

    #[test]
    fn reading_on_fails_where_it_is_asked_to_and_nothing_else_does() {
        const NAME: &str = "failGetMoreAfterCursorCheckout";
        let points = FailPoints::default();
        let once = Bson::from(doc! { "times": 1 });
        points
            .configure(
                NAME,
                &once,
                Some(&doc! { "errorCode": 6, "closeConnection": false }),
            )
            .unwrap();
        assert_eq!(points.meet("getMore", None, "a.b"), None);
        assert_eq!(points.meet_cursor(None, "a.b"), Some(Code(6)));
        assert_eq!(points.meet_cursor(None, "a.b"), None);
        assert_eq!(points.configure(NAME, &"off".into(), None).unwrap(), 1);
        for data in [
            doc! {},
            doc! { "errorCode": 6, "closeConnection": true },
            doc! { "errorCode": 6, "blockConnection": true, "blockTimeMS": 1 },
            doc! { "errorCode": 6, "errorLabels": ["x"] },
        ] {
            assert!(
                points.configure(NAME, &once, Some(&data)).is_err(),
                "{data}"
            );
        }
    }

    #[test]
    fn malformed_fail_points_are_refused() {
        let points = FailPoints::default();
        let check = |name: &str, mode: Bson, data: Document| {
            assert!(
                points.configure(name, &mode, Some(&data)).is_err(),
                "{name} {mode} {data}"
            );
        };
        check("other", "alwaysOn".into(), data());
        check("failCommand", "sometimes".into(), data());
        check(
            "failCommand",
            doc! { "activationProbability": 2.0 }.into(),
            data(),
        );
        check(
            "failCommand",
            "alwaysOn".into(),
            doc! { "failCommands": "find" },
        );
        check(
            "failCommand",
            "alwaysOn".into(),
            doc! { "blockConnection": true },
        );
    }
}
