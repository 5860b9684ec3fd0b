//! Scripts of fakes, against a contract that has everything.

use std::sync::{Arc, LazyLock};

use plantbridge::contract::Contract;
use plantbridge::fake::{Plan, PlanFault};
use plantbridge::wire::json;

use super::{each, vectors};

pub(super) fn run(data: &[u8]) {
    static CONTRACT: LazyLock<Arc<Contract>> = LazyLock::new(|| {
        let document = json::decode(include_bytes!("../../../contracts/bakery.types.json")).expect("JSON");
        Arc::new(Contract::parse_to_serve(&document).expect("a contract"))
    });
    let Ok(script) = json::decode(data) else { return };
    let plan = |may_run| Plan::new(Arc::clone(&CONTRACT), Some(&script), 0, may_run);
    let (allowed, forbidden) = (plan(true), plan(false));
    match (&allowed, &forbidden) {
        (Ok(plan), Err(PlanFault::Code(fields))) => {
            // It brings code along, though perhaps none that would run.
            assert!(!fields.is_empty());
            is_bounded(plan);
        }
        (Ok(allowed), Ok(forbidden)) => {
            assert_eq!((allowed.handlers(), forbidden.handlers()), (0, 0), "code that runs unasked");
            assert_eq!(format!("{allowed:?}"), format!("{forbidden:?}"));
            is_bounded(allowed);
        }
        (Err(fault), Err(_)) => is_told(fault),
        (Err(fault), Ok(_)) => panic!("only without code: {fault:?}"),
        (Ok(_), Err(fault)) => panic!("only with code, and it has none: {fault:?}"),
    }
}

fn is_bounded(plan: &Plan) {
    assert!(plan.emits() <= 64, "{} events by itself", plan.emits());
    assert!(plan.warnings().iter().all(|warning| !warning.is_empty()));
}

fn is_told(fault: &PlanFault) {
    assert!(!fault.to_string().is_empty());
    if let PlanFault::Script(problems) = fault {
        assert!((1..=51).contains(&problems.len()), "{} problems", problems.len());
        assert!(problems.iter().all(|problem| !problem.what.is_empty()));
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let recorded = [
        include_str!("../../../tests/vectors/sem-fake-generation.json"),
        include_str!("../../../tests/vectors/sem-fake-peer.json"),
    ];
    let scripts =
        |file: &&str| each(&vectors(file), &|part| part.get("script").map(|script| script.to_string().into_bytes()));
    let mut seeds: Vec<Vec<u8>> = recorded.iter().flat_map(scripts).collect();
    seeds.extend(
        [
            r#"{"returns":{"oven.read":{"celsius":20}},"fails":{"oven.bake":"Exception","oven.setDoor":"Timeout"}}"#,
            r#"{"state":{"oven":{"celsius":200,"door":"open"}},"emits":[{"event":"oven.overTemperature","every":1000,"params":[250]}]}"#,
            r#"{"handlers":{"oven.bake":"(x) => x"},"python":{"program":"def f(): pass","targets":["oven.read"]},"state":{}}"#,
            r#"{"rows":{"oven":{"batches":{"1":{"batch":1,"recipe":"rye"}}}},"components":{"oven":{}}}"#,
        ]
        .map(|text| text.as_bytes().to_vec()),
    );
    seeds.retain(|seed| seed.len() < 4 * 1024);
    seeds
}
