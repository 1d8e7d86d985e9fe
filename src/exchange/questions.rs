use std::sync::Arc;

use bytestring::ByteString;
use dashmap::DashMap;
use tokio::sync::oneshot;

use super::key::Caller;
use crate::jsonrpc::RequestId;

/// The requests of a server to its clients that wait for a response.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// By their ids, which nobody can guess: among anonymous callers the id is all that tells whose the response is.
    waiting: DashMap<RequestId, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    caller: Caller,
    answer: oneshot::Sender<Answered>,
}

/// What a client has posted in response.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Answered {
    /// The error, as JSON.
    Error(ByteString),
    /// A response that was refused, and why.
    Malformed(String),
    /// The result, as JSON.
    Result(ByteString),
}

/// A request to a client that waits for its response, until it is dropped.
#[derive(Debug)]
pub(crate) struct Question {
    among: Arc<Questions>,
    answer: oneshot::Receiver<Answered>,
    id: RequestId,
}

impl Questions {
    /// A request to this caller: nobody else can answer it.
    ///
    /// # Errors
    ///
    /// If the system has no randomness to give.
    pub(crate) fn ask(self: &Arc<Self>, caller: Caller) -> Result<Question, getrandom::Error> {
        let mut random = [0; 16];
        getrandom::fill(&mut random)?;
        let id = RequestId::from(format!("{:032x}", u128::from_ne_bytes(random)));
        let (sender, answer) = oneshot::channel();
        self.waiting.insert(id.clone(), Waiting { caller, answer: sender });
        Ok(Question { among: Arc::clone(self), answer, id })
    }

    /// Nobody has been asked.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes a response, if it answers a request to its caller.
    pub(crate) fn answer(&self, caller: Caller, id: &RequestId, answered: impl FnOnce() -> Answered) -> bool {
        match self.waiting.remove_if(id, |_, waiting| waiting.caller == caller) {
            // Who does not wait any more has just left.
            Some((_, waiting)) => waiting.answer.send(answered()).is_ok(),
            None => false,
        }
    }
}

impl Question {
    pub(crate) fn id(&self) -> &RequestId {
        &self.id
    }

    /// Waits for the response.
    pub(crate) async fn answered(&mut self) -> Answered {
        match (&mut self.answer).await {
            Ok(answered) => answered,
            // The sender is in the table for as long as this is here.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.among.waiting.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::{Callers, Owner};

    fn answer(questions: &Questions, caller: Caller, id: &RequestId) -> bool {
        questions.answer(caller, id, || Answered::Result("{}".into()))
    }

    #[tokio::test]
    async fn a_question_is_answered_once_and_by_its_caller_only() {
        let (callers, questions) = (Callers::default(), Arc::<Questions>::default());
        let (one, other) = (callers.caller(None, Some(b"1")), callers.caller(Some(Owner::Principal(b"p")), Some(b"1")));
        let mut question = questions.ask(one).unwrap();
        let id = question.id().clone();
        assert!(!answer(&questions, other, &id) && !answer(&questions, callers.caller(None, None), &id));
        assert!(!answer(&questions, one, &"x".into()) && !answer(&questions, one, &1.into()));
        assert!(answer(&questions, one, &id) && !answer(&questions, one, &id));
        assert_eq!(question.answered().await, Answered::Result("{}".into()));
    }

    #[test]
    fn a_question_that_is_dropped_leaves_nothing_behind() {
        let (caller, questions) = (Callers::default().caller(None, None), Arc::<Questions>::default());
        let (one, other) = (questions.ask(caller).unwrap(), questions.ask(caller).unwrap());
        assert_ne!(one.id(), other.id());
        assert_eq!(one.id().as_str().map(str::len), Some(32));
        let id = one.id().clone();
        drop((one, other));
        assert!(!answer(&questions, caller, &id));
        assert!(questions.waiting.is_empty());
    }
}
