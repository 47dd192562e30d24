//! `bench compare` from the command line: this test program is also the program it runs, which is
//! why it has no test harness. Started as `... bench run ...` it is a benchmark over maps.

#![expect(clippy::disallowed_methods, reason = "reads the reports that the comparison wrote")]
#![expect(clippy::unwrap_used, reason = "a test, although it is no #[test]")]

mod stores;

use std::process::{Command, ExitCode};

use clap::Parser;
use environment::Environment;
use thermocline_bench::cli::{BenchCommand, execute};
use thermocline_bench::compare::{
    CompareConfig, Comparison, Place, Programs, Verdict, execute as compare_stores,
};
use thermocline_bench::report::fills_budget;

#[derive(Parser)]
enum Cli {
    #[command(subcommand)]
    Bench(BenchCommand),
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("bench") {
        let Cli::Bench(command) = Cli::parse();
        return match execute(&command, &stores::Maps, &Environment::real()) {
            Ok(code) => code,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::from(error.exit_code())
            }
        };
    }
    for (name, test) in [
        ("stores_take_turns_and_are_summarised", stores_take_turns_and_are_summarised as fn()),
        ("failures_and_wrong_answers_fail_the_comparison", failures_fail_the_comparison),
        ("shared_loads_are_made_once_and_removed", shared_loads_are_made_once_and_removed),
        ("without_the_peers_program_it_says_how_to_build_it", missing_peers_are_explained),
        ("each_store_gets_the_largest_cache_that_keeps_the_budget", caches_are_found),
        ("two_builds_are_compared_round_by_round", two_builds_are_compared),
        ("other_programs_are_refused_before_anything_is_loaded", other_programs_are_refused),
        ("a_report_of_a_killed_comparison_is_no_result", stale_reports_are_no_results),
        ("workloads_share_an_opening_and_the_load_is_a_row", workloads_share_an_opening),
        ("a_search_of_several_workloads_uses_one_load_in_place", searches_run_in_place),
        ("an_interrupted_page_goes_on_where_it_was", interrupted_pages_go_on),
        ("a_page_compares_two_builds", a_page_compares_two_builds),
    ] {
        test();
        println!("test {name} ... ok");
    }
    ExitCode::SUCCESS
}

/// Runs this program as a benchmark; its exit code, what it printed, and the comparison.
fn compare(arguments: &[&str]) -> (Option<i32>, String, Option<Comparison>) {
    let dir = tempfile::tempdir().unwrap();
    let (json, html) = (dir.path().join("out.json"), dir.path().join("out.html"));
    let this = std::env::current_exe().unwrap();
    let output = Command::new(&this)
        .env("THERMOCLINE_PEERS", &this)
        .args(["bench", "compare", "--keys=500", "--ops=2000", "--shape=8+20"])
        .args(arguments)
        .arg("--json")
        .arg(&json)
        .arg("--html")
        .arg(&html)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let comparison = std::fs::read(&json).ok().map(|text| serde_json::from_slice(&text).unwrap());
    if comparison.as_ref().is_some_and(|comparison: &Comparison| !comparison.runs.is_empty()) {
        assert!(std::fs::read_to_string(&html).unwrap().contains("<svg"));
    }
    (output.status.code(), String::from_utf8(said).unwrap(), comparison)
}

fn stores_take_turns_and_are_summarised() {
    let arguments = ["--engine=map", "--with=map", "--workload=ycsb-a,ycsb-e", "--rounds=3"];
    let (code, said, comparison) = compare(&arguments);
    assert_eq!(code, Some(0), "{said}");
    let comparison = comparison.unwrap();
    assert_eq!(comparison.runs.len(), 12);
    let seeds: Vec<u64> = comparison.runs.iter().take(6).map(|run| run.seed).collect();
    assert_eq!(seeds, [1, 1, 2, 2, 3, 3], "rounds are interleaved");
    assert_eq!(comparison.summary.len(), 4);
    let first = &comparison.summary[0];
    assert_eq!(first.ratio_ours_to_this, Some(1.0));
    assert!(first.ops_per_s_min <= first.ops_per_s_median);
    assert!(first.ops_per_s_median <= first.ops_per_s_max);
    assert!(said.contains("ycsb-e") && said.contains("ours/it"), "{said}");
}

fn shared_loads_are_made_once_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let below = format!("--dir={}", dir.path().display());
    let workloads = "--workload=ycsb-a,ycsb-b@distribution=uniform,load";
    let arguments =
        ["--engine=map", "--with=map@threads=1", workloads, "--rounds=2", "--share-loads", &below];
    let (code, said, comparison) = compare(&arguments);
    assert_eq!(code, Some(0), "{said}");
    let comparison = comparison.unwrap();
    for run in &comparison.runs {
        assert_eq!(run.load.is_shared, run.workload != "load", "{} {}", run.workload, run.engine);
    }
    let uniform = |run: &&thermocline_bench::report::Report| run.workload.contains('@');
    assert_eq!(comparison.runs.iter().filter(uniform).count(), 4);
    assert!(comparison.runs.iter().filter(uniform).all(|run| run.distribution == "uniform"));
    // To the nanosecond: a load of its own takes a time of its own.
    let loads = |engine: &str| -> std::collections::HashSet<u64> {
        let shared =
            comparison.runs.iter().filter(|run| run.engine == engine && run.load.is_shared);
        shared.map(|run| run.load.seconds.to_bits()).collect()
    };
    assert_eq!((loads("map").len(), loads("map@threads=1").len()), (1, 1));
    assert_eq!(dir.path().read_dir().unwrap().count(), 0, "nothing is left behind");
}

fn failures_fail_the_comparison() {
    let arguments = ["--engine=map", "--with=torn,nosuch", "--workload=ycsb-a", "--rounds=1"];
    let (code, said, comparison) = compare(&arguments);
    assert_eq!(code, Some(3), "{said}");
    let comparison = comparison.unwrap();
    assert_eq!(comparison.runs.len(), 2);
    assert!(comparison.summary[1].wrong_reads > 0);
    let failure = comparison.summary[2].failure.as_ref().unwrap();
    assert!(failure.contains("there is no store \"nosuch\""), "{failure}");
    assert!(said.contains("WRONG"), "{said}");
}

fn missing_peers_are_explained() {
    let this = std::env::current_exe().unwrap();
    let output = Command::new(&this)
        .env("THERMOCLINE_PEERS", "/no/such/program")
        .args(["bench", "compare", "--engine=map", "--with=map", "--workload=load"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("/no/such/program") && said.contains("peers/install.sh"), "{said}");
}

fn caches_are_found() {
    let stores = ["--engine=cached", "--with=hungry,map,cached@cache=32MiB", "--workload=ycsb-a"];
    let budget = ["--memory=128MiB", "--page-cache=free", "--rounds=2"];
    let (code, said, comparison) = compare(&[&stores[..], &budget].concat());
    assert_eq!(code, Some(0), "{said}");
    let comparison = comparison.unwrap();
    let [cached, hungry] = comparison.searches.as_slice() else {
        panic!("{:?}", comparison.searches);
    };
    assert_eq!((cached.store.as_str(), cached.verdict), ("cached", Verdict::Fills), "{said}");
    assert!(cached.trials.len() > 1, "the whole budget as a cache is too much");
    assert_eq!((hungry.store.as_str(), hungry.verdict), ("hungry", Verdict::OverBudget));
    assert_eq!(hungry.cache_bytes, 1 << 20, "the smallest");
    let rows = &comparison.summary;
    let of = |store: &'static str| comparison.runs.iter().filter(move |run| run.engine == store);
    for run in of("cached") {
        assert_eq!(run.cache_bytes, Some(cached.cache_bytes));
        assert!(fills_budget(run.rss_peak_bytes, run.memory_budget_bytes), "{said}");
        assert!(run.is_quotable(), "{:?}", run.marks);
    }
    assert_eq!((rows[0].is_quotable, rows[0].fills_budget), (true, Some(true)));
    // The row of a store that cannot keep the budget says so, and the other rows are made.
    assert_eq!(of("hungry").count(), 2);
    assert!(said.contains("does not keep the budget with its smallest cache"), "{said}");
    assert_eq!((rows[1].is_quotable, rows[1].fills_budget), (false, Some(false)));
    // A store without a cache runs without a search, and is marked; one with a given cache
    // likewise.
    assert_eq!((of("map").count(), rows[2].cache_bytes), (2, None));
    assert!(!rows[2].is_quotable && said.contains("% of the budget of 128.0 MiB"), "{said}");
    assert_eq!(rows[3].cache_bytes, Some(32 << 20));
    let (_, said, comparison) = compare(&[&stores[..], &budget, &["--default-caches"]].concat());
    assert!(comparison.unwrap().searches.is_empty() && !said.contains("search"), "{said}");
}

fn two_builds_are_compared() {
    let this = std::env::current_exe().unwrap();
    let baseline = format!("--baseline={}", this.display());
    let (code, said, comparison) =
        compare(&["--engine=map", "--workload=ycsb-a,ycsb-c", "--rounds=3", &baseline]);
    assert_eq!(code, Some(0), "{said}");
    let comparison = comparison.unwrap();
    let seeds: Vec<u64> = comparison.runs.iter().take(6).map(|run| run.seed).collect();
    assert_eq!(seeds, [1, 1, 2, 2, 3, 3], "the builds take turns with the round's seed");
    let names: Vec<&str> = comparison.runs.iter().take(2).map(|run| run.engine.as_str()).collect();
    assert_eq!(names, ["map", "map (baseline)"]);
    assert_eq!(comparison.builds.len(), 2);
    let build = &comparison.builds[0];
    assert_eq!((build.rounds, build.store.as_str()), (3, "map"));
    let spread = build.ops_per_s.unwrap();
    assert!(spread.min <= spread.median && spread.median <= spread.max);
    let ratio = |round: usize| {
        comparison.runs[2 * round].ops_per_s / comparison.runs[2 * round + 1].ops_per_s
    };
    let largest = (0..3).map(ratio).fold(0.0, f64::max);
    assert!((spread.max - largest).abs() < 1e-9);
    assert!(build.cpu_us_per_op.is_some());
    assert!(said.contains("this build over the baseline"), "{said}");
}

fn other_programs_are_refused() {
    let this = std::env::current_exe().unwrap();
    for (peers, with, baseline, says) in [
        (this.as_path(), "", "/no/such/program", "cannot start /no/such/program"),
        (this.as_path(), "", "/bin/true", "/bin/true speaks another protocol"),
        (this.as_path(), "", "/bin/false", "/bin/false speaks another protocol"),
        (std::path::Path::new("/bin/true"), "--with=map", "", "/bin/true speaks another protocol"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut arguments = vec!["bench", "compare", "--engine=map", "--workload=load"];
        arguments.extend(Some(with).filter(|with| !with.is_empty()));
        let baseline = format!("--baseline={baseline}");
        arguments.extend(Some(baseline.as_str()).filter(|_| with.is_empty()));
        let output = Command::new(&this)
            .env("THERMOCLINE_PEERS", peers)
            .env("TMPDIR", dir.path())
            .args(&arguments)
            .output()
            .unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(says), "{said}");
        assert!(!said.contains("round"), "{said}");
        assert_eq!(dir.path().read_dir().unwrap().count(), 0, "nothing was begun");
    }
}

fn stale_reports_are_no_results() {
    let this = std::env::current_exe().unwrap();
    let (_, _, comparison) = compare(&["--engine=torn", "--workload=ycsb-a", "--rounds=1"]);
    let wrong = comparison.unwrap().runs.remove(0);
    assert!(wrong.wrong_reads > 0);
    let scratch = tempfile::tempdir().unwrap();
    let config = CompareConfig {
        engine: "nosuch".to_owned(),
        with: Vec::new(),
        workloads: vec!["ycsb-a".to_owned()],
        rounds: 1,
        seed: 1,
        options: Vec::new(),
        shares_loads: false,
        has_one_opening: false,
        searches_caches: true,
        first_caches: Default::default(),
        has_baseline: false,
    };
    // A process that was killed, and had the same number, left this.
    thermocline_bench::report::write_json(&scratch.path().join("0.json"), &wrong).unwrap();
    let programs = Programs { ours: this.clone(), peers: this, baseline: None };
    let comparison =
        compare_stores(&config, &programs, Place::scratch(scratch.path()), |_, _| {}).unwrap();
    assert_eq!((comparison.runs.len(), comparison.failures.len()), (0, 1));
}

fn workloads_share_an_opening() {
    let workloads = "--workload=ycsb-d,ycsb-c@distribution=uniform,ycsb-a@ops=500";
    let arguments =
        ["--engine=map", "--with=map@threads=1", workloads, "--rounds=2", "--one-opening"];
    let (code, said, comparison) = compare(&arguments);
    assert_eq!(code, Some(0), "{said}");
    let comparison = comparison.unwrap();
    let rows: Vec<&str> = comparison.summary.iter().map(|row| row.workload.as_str()).collect();
    let names = ["load", "ycsb-d", "ycsb-c@distribution=uniform", "ycsb-a@ops=500"];
    assert_eq!(rows, names.iter().flat_map(|name| [*name, *name]).collect::<Vec<_>>());
    assert!(comparison.summary.iter().all(|row| row.rounds == 2 && row.wrong_reads == 0), "{said}");
    assert_eq!(comparison.runs.len(), 16);
    let runs = &comparison.runs[..4];
    assert!(runs.iter().all(|run| run.engine == "map" && run.round == 0));
    assert_eq!((runs[0].ops, runs[3].ops), (500, 500));
    assert_eq!(runs[2].distribution, "uniform");
    // One load, in all rows of an opening.
    assert!(runs.iter().all(|run| run.load == runs[0].load && !run.load.is_shared));
    // The keys that the first workload has inserted are there in the next ones.
    assert!(runs[1].live_bytes > 500 * 28 && runs[3].live_bytes >= runs[1].live_bytes);
    let (code, said, _) =
        compare(&["--engine=map", "--workload=ycsb-a,load", "--rounds=1", "--one-opening"]);
    assert!(
        code == Some(3) && said.contains("load cannot follow ycsb-a on the same store"),
        "{said}"
    );
}

fn searches_run_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let below = format!("--dir={}", dir.path().display());
    let (code, said, comparison) = compare(&[
        "--engine=cached",
        "--workload=ycsb-a,ycsb-c",
        "--memory=128MiB",
        "--page-cache=free",
        "--rounds=1",
        "--one-opening",
        &below,
    ]);
    assert_eq!(code, Some(0), "{said}");
    let comparison = comparison.unwrap();
    let [search] = comparison.searches.as_slice() else { panic!("{:?}", comparison.searches) };
    assert_eq!((search.workload.as_str(), search.verdict), ("ycsb-a,ycsb-c", Verdict::Fills));
    assert!(search.trials.len() > 1);
    assert!(comparison.runs.iter().all(|run| !run.load.is_shared && run.wrong_reads == 0));
    assert!(comparison.summary.iter().all(|row| row.is_quotable), "{said}");
    assert_eq!(dir.path().read_dir().unwrap().count(), 0, "nothing is left behind");
}

fn interrupted_pages_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let this = std::env::current_exe().unwrap();
    let suite = dir.path().join("page.toml");
    let options = "[\"--keys=500\", \"--ops=2000\", \"--shape=8+20\"]";
    let text = format!(
        "title = \"A page\"\nrounds = 2\noptions = {options}\n[[comparison]]\ntitle = \"One\"\n\
         engine = \"memory\"\nwith = [\"map\", \"failing\"]\nworkloads = [\"ycsb-a\"]\n"
    );
    std::fs::write(&suite, text).unwrap();
    let kept = dir.path().join("kept");
    let tables = |may_run: &str| {
        let output = Command::new(&this)
            .env("THERMOCLINE_PEERS", &this)
            .env(stores::MAY_RUN, may_run)
            .args(["bench", "tables", "--keep"])
            .args([&kept, &suite])
            .output()
            .unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), said)
    };
    let runs = |said: &str| said.lines().filter(|line| line.ends_with(" ops/s")).count();
    let (code, said) = tables("no");
    assert!(said.contains("page: 1 comparisons, about "), "{said}");
    assert_eq!((code, runs(&said)), (Some(3), 4), "{said}");
    let page = || std::fs::read_to_string(dir.path().join("page.md")).unwrap();
    assert!(page().contains("a round failed"), "{}", page());
    // A run that has succeeded is not repeated.
    let (code, said) = tables("yes");
    assert_eq!((code, runs(&said)), (Some(0), 2), "{said}");
    assert!(!page().contains("failed") && page().contains("| ycsb-a | failing |"), "{}", page());
    assert!(!kept.join("page").exists(), "a whole page keeps nothing");
    // Then the page is measured from its beginning.
    let (code, said) = tables("yes");
    assert_eq!((code, runs(&said)), (Some(0), 6), "{said}");
}

fn a_page_compares_two_builds() {
    let dir = tempfile::tempdir().unwrap();
    let this = std::env::current_exe().unwrap();
    let suite = dir.path().join("builds.toml");
    let text = "title = \"Builds\"\nrounds = 2\nshare_loads = true\none_opening = true\n\
         default_caches = true\nbaseline = \"/no/such/program\"\n\
         options = [\"--keys=500\", \"--ops=2000\", \"--shape=8+20\"]\n[[comparison]]\n\
         title = \"One\"\nengine = \"memory\"\nworkloads = [\"ycsb-a\", \"ycsb-c\"]\n";
    std::fs::write(&suite, text).unwrap();
    let tables = |more: &[String]| {
        let output = Command::new(&this)
            .args(["bench", "tables", "--keep"])
            .args([&dir.path().join("kept"), &suite])
            .args(more)
            .output()
            .unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), said)
    };
    let (code, said) = tables(&[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("/no/such/program"), "{said}");
    let (code, said) = tables(&[format!("--baseline={}", this.display())]);
    assert_eq!(code, Some(0), "{said}");
    let page = std::fs::read_to_string(dir.path().join("builds.md")).unwrap();
    let (_, builds) = page.split_once("This build over the baseline").expect(&page);
    for workload in ["ycsb-a", "ycsb-c"] {
        assert!(builds.contains(&format!("| {workload} | memory | 2 | ")), "{page}");
    }
}
