//! `POST …/advice`: compares a container's partition key with other candidates on its items.

use hyper::{Method, StatusCode};
use tessera_advisor::{Question, Refusal, of_container};

use crate::actions::{self, Failure};
use crate::containers;
use crate::reply::Reply;
use crate::routes::{Call, Route};

pub(crate) const ROUTES: &[Route] = &[Route {
    method: Method::POST,
    path: "/api/containers/{api}/{database}/{container}/advice",
    is_public: false,
    run: |call| Box::pin(advise(call)),
}];

async fn advise(call: &Call<'_>) -> Reply {
    let name = match containers::name(call) {
        Ok(name) => name,
        Err(refusal) => return refusal,
    };
    let question: Question = match actions::read(call, r#"{"keys": ["tenant", "tenant,day"]}"#) {
        Ok(question) => question,
        Err(failure) => return failure.into(),
    };
    // One survey at a time: each takes some memory and all of a core.
    let Ok(_turn) = call.console.surveys.acquire().await else {
        return Reply::error(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping");
    };
    match of_container(&call.console.store, &name, &question).await {
        Ok(report) => match report.print() {
            Ok(printed) => Reply::json(StatusCode::OK, &printed),
            Err(error) => Reply::error(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        },
        Err(Refusal::Question(words)) => Failure::Unreadable(words).into(),
        Err(Refusal::Nothing(words)) => Reply::error(StatusCode::NOT_FOUND, &words),
        Err(Refusal::Core(error)) => Failure::Core(error).into(),
    }
}
