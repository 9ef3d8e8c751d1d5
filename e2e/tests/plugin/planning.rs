//! `plan` compared with what then happens: random changes of a random organization, one after the other, each planned, made by a
//! user, and compared. And each output form.

mod change;
mod forms;
pub(super) mod snapshot;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Dice, Options, Product, Steps, eventually};
use k8s_openapi::api::core::v1::{ConfigMap, LimitRange, LimitRangeItem, LimitRangeSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::Value;
use tokio::sync::OnceCell;

use self::change::{Change, Choice};
use self::snapshot::{Effects, Snapshot};
use super::fixture::plugin;

/// The seed of all random choices.
const SEED: u64 = 20_261_121;
const CASES: usize = 100;
/// The namespace controller takes some seconds for each.
const DELETIONS: usize = 4;
/// The time for all effects of a namespace's deletion.
const GOING: Duration = Duration::from_secs(90);
const PREFIX: &str = "org-";
/// Admin of a part of the organization, who may read everything.
const USER: &str = "nora";
const CLUSTER_ADMIN: &str = "root";

struct Fixture {
    cluster: &'static Cluster,
    admin: Steps,
    user: Steps,
    snapshot: Snapshot,
    known: BTreeSet<String>,
    fresh: usize,
    deletions: usize,
    tally: Tally,
}

#[derive(Debug, Default)]
struct Tally {
    allowed: usize,
    refused: usize,
    same_words: usize,
    without_effect: usize,
    through_the_binary: usize,
    effects: [usize; 5],
}

#[tokio::test]
async fn what_is_planned_is_what_happens() {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    let began = Instant::now();
    let cluster = CLUSTER.get_or_try_init(Cluster::start).await.unwrap();
    let product = Product::install(cluster, Options::default()).await.unwrap();
    let _replicas = tokio::try_join!(product.start_webhook(), product.start_controller()).unwrap();
    let mut dice = Dice::new(SEED);
    let mut fixture = Fixture::found(cluster, &mut dice).await.unwrap();
    println!("seed {SEED}: the organisation is there after {:?}", began.elapsed());
    for case in 0..CASES {
        let done = fixture.case(case, &mut dice).await;
        done.unwrap_or_else(|error| panic!("seed {SEED}, case {case}: {error:#}"));
    }
    println!("seed {SEED}: {CASES} plans came true: {:?}; {:?} in all", fixture.tally, began.elapsed());
    let Tally { allowed, refused, through_the_binary, effects, .. } = fixture.tally;
    assert!(allowed > 30 && refused > 15 && through_the_binary > 5, "{:?}", fixture.tally);
    assert!(effects.iter().all(|it| *it > 0), "{:?}", fixture.tally);
}

impl Fixture {
    /// Two trees and some roots, with objects; the user is admin of one of the trees.
    async fn found(cluster: &'static Cluster, dice: &mut Dice) -> Result<Self> {
        let admin = Steps::of(cluster.admin());
        let tree = [
            ("org-a", ""),
            ("org-b", "org-a"),
            ("org-c", "org-b"),
            ("org-d", "org-a"),
            ("org-k", ""),
            ("org-l", "org-k"),
            ("org-m", "org-l"),
            ("org-x", ""),
        ];
        admin.plant(&tree).await?;
        admin.create_anchor("org-b", "org-s").await?;
        admin.create_anchor("org-k", "org-t").await?;
        for (name, of) in [("org-s", "org-b"), ("org-t", "org-k")] {
            eventually(&format!("{name} is a subnamespace"), PATIENCE, async || {
                let seen = admin.depths(name).await.map_err(|error| error.to_string())?;
                if seen.contains_key(of) { Ok(()) } else { Err(format!("{seen:?}")) }
            })
            .await?;
        }
        admin.make_admin("org-k", USER).await?;
        let kubectl = |words: &str| cluster.kubectl().args(words.split_whitespace().collect::<Vec<_>>()).ok();
        kubectl("create clusterrole org-reader --verb=get,list,watch --resource=*.*").await?;
        kubectl("create clusterrolebinding org-reader --clusterrole=org-reader --user=nora").await?;
        let user = Steps::of(cluster.client_as(USER, &[]));
        let known = ["roles", "rolebindings"].map(|it| format!("{it}.rbac.authorization.k8s.io"));
        let fixture = Self {
            cluster,
            admin,
            user,
            snapshot: Snapshot::default(),
            known: known.into(),
            fresh: 0,
            deletions: 0,
            tally: Tally::default(),
        };
        for _ in 0..24 {
            fixture.stir(dice).await?;
        }
        Ok(fixture)
    }

    /// Creates or deletes an object. Some of these requests are denied, which is intended.
    async fn stir(&self, dice: &mut Dice) -> Result<()> {
        let names: Vec<String> = self
            .admin
            .namespaces()
            .list(&ListParams::default())
            .await?
            .items
            .into_iter()
            .filter(|it| it.metadata.deletion_timestamp.is_none())
            .filter_map(|it| it.metadata.name)
            .filter(|it| it.starts_with(PREFIX))
            .collect();
        let (namespace, name) = (dice.pick(&names), dice.pick(&["one", "two", "three"]));
        let asks = [
            ("select", format!("{}.tree.hnc.x-k8s.io/depth", dice.pick(&names))),
            ("treeSelect", format!("!{}", dice.pick(&names))),
            ("all", "true".to_owned()),
            ("none", "true".to_owned()),
        ];
        let annotation = dice.percent(35).then(|| {
            let (key, value) = dice.pick(&asks);
            (format!("propagate.hnc.x-k8s.io/{key}"), value)
        });
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            annotations: Some(annotation.into_iter().collect()),
            ..ObjectMeta::default()
        };
        let (kind, content) = (dice.below(3), [("from".to_owned(), namespace.clone())]);
        let (client, post) = (self.admin.client.clone(), PostParams::default());
        let (maps, limits): (Api<ConfigMap>, Api<LimitRange>) =
            (Api::namespaced(client.clone(), &namespace), Api::namespaced(client, &namespace));
        let bindings = self.admin.bindings(&namespace);
        let done = if dice.percent(25) {
            let params = DeleteParams::default();
            match kind {
                0 => bindings.delete(name, &params).await.map(drop),
                1 => maps.delete(name, &params).await.map(drop),
                _ => limits.delete(name, &params).await.map(drop),
            }
        } else {
            match kind {
                0 => {
                    let binding = hns_e2e::steps::binding(name, ("ClusterRole", "view"), &namespace);
                    bindings
                        .create(&post, &k8s_openapi::api::rbac::v1::RoleBinding { metadata, ..binding })
                        .await
                        .map(drop)
                }
                1 => maps
                    .create(
                        &post,
                        &ConfigMap { metadata, data: Some(content.into()), ..ConfigMap::default() },
                    )
                    .await
                    .map(drop),
                _ => limits
                    .create(&post, &LimitRange { metadata, spec: Some(limited(dice.below(9))) })
                    .await
                    .map(drop),
            }
        };
        match done {
            Ok(()) | Err(kube::Error::Api(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn case(&mut self, case: usize, dice: &mut Dice) -> Result<()> {
        if case > 0 {
            // The state at the end of the last case has not changed.
            let now = Snapshot::look(&self.admin.client, PREFIX).await?;
            let since = self.snapshot.became(&now, &self.known);
            ensure!(since == Effects::default(), "after all was as planned, there came {since:#?}");
        }
        for _ in 0..dice.below(3) {
            self.stir(dice).await?;
        }
        let configured: Vec<String> = change::entries(&self.admin)
            .await?
            .iter()
            .filter_map(|it| Some(it["resource"].as_str()?.to_owned()))
            .collect();
        let now = Snapshot::look(&self.admin.client, PREFIX).await?;
        let (names, parents): (Vec<String>, _) = (now.namespaces.keys().cloned().collect(), now.parents());
        self.fresh += 1;
        let choice = Choice {
            names: &names,
            parents: &parents,
            fresh: format!("{PREFIX}new-{}", self.fresh),
            deletions: self.deletions < DELETIONS,
            configured: &configured,
        };
        let change = Change::roll(dice, &choice);
        let as_user = !change.is_configuration() && dice.percent(40);
        let through_the_binary = case % 10 == 5;
        let plan = self.foretell(&change, as_user, through_the_binary).await?;
        self.make(&change, as_user, &plan)
            .await
            .with_context(|| format!("{change:?}, as {}: {plan:#}", who(as_user)))
    }

    /// The plan, made when nothing is pending and admission has observed everything.
    async fn foretell(&mut self, change: &Change, as_user: bool, through_the_binary: bool) -> Result<Value> {
        self.tally.through_the_binary += usize::from(through_the_binary);
        let config = self.cluster.kubeconfig();
        let whose = if as_user { format!("--as {USER}") } else { String::new() };
        let words = format!("--kubeconfig {} {whose} {} -o json", config.display(), change.words());
        let what = format!("the plan of {change:?}, as {}, and admission agree", who(as_user));
        eventually(&what, PATIENCE, async || {
            let plan = if through_the_binary {
                let output = plugin(&words, &[]).await.map_err(|error| error.to_string())?;
                serde_json::from_str(&output.stdout).map_err(|error| format!("{error}: {output:?}"))?
            } else {
                let line = std::iter::once("kubectl-hns").chain(words.split_whitespace());
                let cli =
                    kubectl_hns::cli::parse(line.map(Into::into)).map_err(|stop| format!("{stop:?}"))?;
                kubectl_hns::plan_json(cli).await.map_err(|failure| failure.to_string())?
            };
            if plan["pending"] != 0 {
                return Err(format!("{} changes are under way", plan["pending"]));
            }
            let snapshot =
                Snapshot::look(&self.admin.client, PREFIX).await.map_err(|error| error.to_string())?;
            let steps = if as_user { &self.user } else { &self.admin };
            let said = change.make(steps, &snapshot, true).await.map_err(|error| error.to_string())?;
            if said.as_ref().map(|it| u64::from(it.code)) == plan["verdict"]["code"].as_u64() {
                Ok(plan)
            } else {
                Err(format!("admission says {said:?}, but {}", plan["verdict"]))
            }
        })
        .await
    }

    /// Makes the change and waits for the planned effects.
    async fn make(&mut self, change: &Change, as_user: bool, plan: &Value) -> Result<()> {
        let steps = if as_user { &self.user } else { &self.admin };
        let before = Snapshot::look(&self.admin.client, PREFIX).await?;
        let refusal = change.make(steps, &before, false).await?;
        let code = plan["verdict"]["code"].as_u64();
        ensure!(refusal.as_ref().map(|it| u64::from(it.code)) == code, "the API server says {refusal:?}");
        ensure!(plan["verdict"]["outcome"] == if refusal.is_some() { "refused" } else { "allowed" });
        let foretold = Effects::foretold(plan);
        if let Some(refusal) = &refusal {
            self.tally.refused += 1;
            let words = plan["verdict"]["message"].as_str().unwrap_or_default();
            let judged = refusal.message.contains("admission webhook");
            ensure!(!judged || refusal.message.contains(words), "{}", refusal.message);
            self.tally.same_words += usize::from(judged);
        } else {
            self.tally.allowed += 1;
        }
        if let (Change::SetResource { resource, mode }, None) = (change, &refusal) {
            if *mode == "Ignore" {
                self.known.remove(*resource)
            } else {
                self.known.insert((*resource).to_owned())
            };
        }
        if let (Change::DeleteType { resource }, None) = (change, &refusal) {
            self.known.remove(*resource);
        }
        let deletes = foretold.namespaces.iter().any(|it| it[0] == "delete");
        self.deletions += usize::from(deletes);
        let patience = if deletes { GOING } else { PATIENCE };
        let known = &self.known;
        let after = eventually("what was planned happens, and nothing else", patience, async || {
            let now = Snapshot::look(&self.admin.client, PREFIX).await.map_err(|error| error.to_string())?;
            let seen = before.became(&now, known);
            if seen == foretold {
                Ok(now)
            } else {
                Err(format!("{seen:#?}\nwhere this was foretold: {foretold:#?}"))
            }
        })
        .await?;
        after.holds(&foretold);
        self.snapshot = after;
        let sizes = foretold.sizes();
        self.tally.without_effect += usize::from(refusal.is_none() && sizes == [0; 5]);
        (0..sizes.len()).for_each(|at| self.tally.effects[at] += sizes[at]);
        Ok(())
    }
}

/// Limits that differ by a number.
fn limited(number: usize) -> LimitRangeSpec {
    let max = [("cpu".to_owned(), Quantity(format!("{}", number + 1)))].into();
    LimitRangeSpec {
        limits: vec![LimitRangeItem { type_: "Pod".into(), max: Some(max), ..LimitRangeItem::default() }],
    }
}

fn who(as_user: bool) -> &'static str {
    if as_user { USER } else { CLUSTER_ADMIN }
}
