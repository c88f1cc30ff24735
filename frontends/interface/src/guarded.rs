//! Panics: one fails one request, not the connection and its other requests.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

/// Runs `request`; none if it panics. The panic hook has then logged where.
///
/// Unfinished changes of the request are in its transaction, which ends with it. The request is
/// borrowed, because requests are large and would be copied.
pub async fn guarded<F: Future + ?Sized>(mut request: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| request.as_mut().poll(context)));
        match polled {
            Ok(polled) => polled.map(Some),
            Err(_) => Poll::Ready(None),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_no_answer_wherever_it_happens() {
        assert_eq!(guarded(pin!(async { 1 })).await, Some(1));
        for yields in 0..3 {
            let panics = pin!(async {
                for _ in 0..yields {
                    tokio::task::yield_now().await;
                }
                panic!("on purpose")
            });
            let outcome: Option<()> = guarded(panics).await;
            assert_eq!(outcome, None);
        }
    }
}
