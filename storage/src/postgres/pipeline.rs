//! Statements sent one behind the other without waiting for answers: one round trip for all.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio_postgres::Error;

/// Requests in the order in which they are sent.
///
/// The driver puts a request on the wire when its future is polled for the first time, provided
/// that it has not to prepare anything; so polling them in order sends them in order.
pub(super) struct Pipeline<'a, T> {
    requests: Vec<Request<'a, T>>,
}

enum Request<'a, T> {
    Sent(Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>),
    Answered(Result<T, Error>),
}

impl<'a, T: Unpin> Pipeline<'a, T> {
    pub(super) fn new() -> Self {
        Self {
            requests: Vec::new(),
        }
    }

    /// How many requests there are.
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Adds a request behind the others. It is not sent yet.
    pub(super) fn push(&mut self, request: impl Future<Output = Result<T, Error>> + Send + 'a) {
        self.requests.push(Request::Sent(Box::pin(request)));
    }

    /// Sends all and waits for every answer, also behind one that failed.
    pub(super) fn run(self) -> impl Future<Output = Vec<Result<T, Error>>> + Send + use<'a, T>
    where
        T: Send,
    {
        Run(self.requests)
    }
}

struct Run<'a, T>(Vec<Request<'a, T>>);

impl<T: Unpin> Future for Run<'_, T> {
    type Output = Vec<Result<T, Error>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut all_answered = true;
        for request in &mut self.0 {
            if let Request::Sent(sent) = request {
                match sent.as_mut().poll(context) {
                    Poll::Ready(answer) => *request = Request::Answered(answer),
                    Poll::Pending => all_answered = false,
                }
            }
        }
        if !all_answered {
            return Poll::Pending;
        }
        let answers = std::mem::take(&mut self.0).into_iter();
        Poll::Ready(
            answers
                .filter_map(|request| match request {
                    Request::Answered(answer) => Some(answer),
                    Request::Sent(_) => None,
                })
                .collect(),
        )
    }
}

/// Sends a request whose answer nobody waits for. Whatever is sent next comes behind it.
pub(super) fn send<T>(request: impl Future<Output = T>) {
    let mut context = Context::from_waker(Waker::noop());
    // Ready or not, the request is on its way; the driver drops an answer that nobody takes.
    let _sent = std::pin::pin!(request).poll(&mut context).is_ready();
}
