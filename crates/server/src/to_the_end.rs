//! Work that is done even if whoever waits for it goes away.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A future that is run to its end: dropped before that, it goes on as a task of its own. Cheaper than a
/// task from the start, which has to wake the one that waits.
pub struct ToTheEnd<F: Future<Output: Send> + Send + 'static>(Option<Pin<Box<F>>>);

impl<F: Future<Output: Send> + Send + 'static> ToTheEnd<F> {
    /// Nothing happens before it is first awaited or dropped.
    pub fn of(work: F) -> ToTheEnd<F> {
        ToTheEnd(Some(Box::pin(work)))
    }
}

impl<F: Future<Output: Send> + Send + 'static> Future for ToTheEnd<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let work = self.0.as_mut().expect("not awaited after its end");
        let output = ready!(work.as_mut().poll(context));
        self.0 = None;
        Poll::Ready(output)
    }
}

impl<F: Future<Output: Send> + Send + 'static> Drop for ToTheEnd<F> {
    fn drop(&mut self) {
        // Without a runtime the process is ending, and nothing is done to the end.
        if let (Some(work), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn it_answers_whoever_waits() {
        assert_eq!(ToTheEnd::of(async { 7 }).await, 7);
    }

    #[tokio::test]
    async fn it_goes_on_when_nobody_waits_any_longer() {
        let (begin, begun) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel();
        let work = ToTheEnd::of(async move {
            let _ = begun.await;
            let _ = end.send("done");
        });
        assert!(tokio::time::timeout(Duration::ZERO, work).await.is_err());
        begin.send(()).unwrap();
        assert_eq!(ended.await, Ok("done"));
    }
}
