//! What was answered of late, for requests that are asked again.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use crate::journal::OnceKey;

/// How many answers are had: more than there are requests between the look into the journal and the engine.
const MOST: usize = 8_192;

/// The last answers to requests that may be asked again. Who asks looks into the journal first; what was
/// kept after that look is found here.
#[derive(Debug, Default)]
pub(super) struct Answered {
    by_key: HashMap<OnceKey, Value>,
    order: VecDeque<OnceKey>,
}

impl Answered {
    pub(super) fn find(&self, key: &OnceKey) -> Option<&Value> {
        self.by_key.get(key)
    }

    pub(super) fn extend(&mut self, answers: impl Iterator<Item = (OnceKey, Value)>) {
        for (key, value) in answers {
            if self.by_key.insert(key.clone(), value).is_none() {
                self.order.push_back(key);
            }
            if self.order.len() > MOST
                && let Some(oldest) = self.order.pop_front()
            {
                self.by_key.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_answers_are_had_and_no_more() {
        let key = |at: usize| OnceKey::parse(&format!("{at:032x}")).unwrap();
        let mut answered = Answered::default();
        answered.extend((0..MOST).map(|at| (key(at), Value::from(at))));
        // The same again takes no room.
        answered.extend([(key(0), Value::from(0))].into_iter());
        assert_eq!(answered.find(&key(0)), Some(&Value::from(0)));
        answered.extend([(key(MOST), Value::from(MOST))].into_iter());
        assert_eq!(answered.find(&key(0)), None);
        assert_eq!(answered.find(&key(1)), Some(&Value::from(1)));
        assert_eq!(answered.find(&key(MOST)), Some(&Value::from(MOST)));
    }
}
