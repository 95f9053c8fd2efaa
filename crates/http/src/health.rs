//! Health and readiness: `/healthz`, `/readyz`, and the metrics of panics and problems.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::HeaderName;
use reelway_metrics::Exposition;
use reelway_supervise::Severity;

use crate::answer::{self, Answer};
use crate::node::{NodeState, Problem};
use crate::status::Status;

/// `GET /healthz`: 503 while a part has failed. Lists all problems, one per line.
pub(crate) async fn healthz(State(status): State<Arc<Status>>) -> Answer {
    health(&status.node.problems())
}

/// `GET /readyz`: 503 while newcomers are not admitted. Includes the network's capacity, if it is
/// limited.
pub(crate) async fn readyz(State(status): State<Arc<Status>>) -> Answer {
    match status.state() {
        NodeState::Serving => {
            let mut answer = answer::with(StatusCode::OK, "text/plain; charset=utf-8", "ready\n");
            if let Some((total, free)) = status.sessions.gate().network() {
                let capacity = format!("total={total}, free={free}");
                let name = HeaderName::from_static("reelway-capacity");
                answer::set(&mut answer, name, &capacity);
            }
            answer
        }
        NodeState::Starting => answer::error(StatusCode::SERVICE_UNAVAILABLE, "starting"),
        NodeState::Draining => answer::error(StatusCode::SERVICE_UNAVAILABLE, "stopping"),
    }
}

fn health(problems: &[Problem]) -> Answer {
    let is_failed = problems
        .iter()
        .any(|problem| problem.severity == Severity::Failed);
    let (status, mut text) = match is_failed {
        false => (StatusCode::OK, "ok\n".to_owned()),
        true => (StatusCode::SERVICE_UNAVAILABLE, "failed\n".to_owned()),
    };
    for problem in problems {
        // A probe may come from anywhere, so it only learns which part is affected.
        let _ = writeln!(text, "{}: {}", problem.severity.name(), problem.what);
    }
    let mut answer = answer::with(status, "text/plain; charset=utf-8", text);
    answer::set(&mut answer, axum::http::header::CACHE_CONTROL, "no-store");
    answer
}

/// Writes metrics of panics and problems.
pub(crate) fn write_metrics(out: &mut Exposition, problems: &[Problem]) {
    let name = "reelway_thread_panics_total";
    out.family(
        name,
        "counter",
        "Panics caught, by thread or part of the server.",
    );
    for (part, panics) in reelway_supervise::panics() {
        out.value(name, &[("thread", &part)], panics);
    }
    let name = "reelway_problems";
    out.family(
        name,
        "gauge",
        "Problems listed at /api/node, by severity; failed: a part does not work.",
    );
    for severity in [Severity::Recovered, Severity::Degraded, Severity::Failed] {
        let those = problems
            .iter()
            .filter(|problem| problem.severity == severity);
        out.value(name, &[("severity", severity.name())], those.count());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(severity: Severity) -> Problem {
        Problem {
            what: "disk".into(),
            severity,
            detail: "secret".into(),
            since: String::new(),
            panics: 1,
        }
    }

    #[test]
    fn only_a_failed_part_makes_the_server_unhealthy() {
        assert_eq!(health(&[]).status(), StatusCode::OK);
        let borne = [problem(Severity::Degraded), problem(Severity::Recovered)];
        assert_eq!(health(&borne).status(), StatusCode::OK);
        let failed = [problem(Severity::Failed), problem(Severity::Recovered)];
        assert_eq!(health(&failed).status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
