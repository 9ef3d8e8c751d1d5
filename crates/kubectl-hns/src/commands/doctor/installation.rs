//! Checks the installed objects: registrations, policies, deployments, the certificate, the lease and the
//! configuration.

#[cfg(test)]
mod tests;

use hns_api::{SubnamespaceAnchor, SubnamespaceAnchorSpec, names};
use hns_cluster::api::Api;
use hns_cluster::settings::SharedSettings;
use hns_runtime::tls;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};

use super::{Finding, Level, configuration, some};
use crate::failure::Problem;
use crate::session::Session;

const DAY: i64 = 24 * 60 * 60;
/// The remaining validity of the certificate from which on a warning is reported.
const SOON: i64 = 14 * DAY;
/// What to do if a registration or a policy is missing.
const REPAIR: &str = "The controller creates them, within some seconds of a change of the settings. If they stay away, check that it runs without \
                      --manage-registrations=false, and read its log.";
/// The webhooks that the safety of the hierarchy depends on.
const NEEDED: [&str; 3] = [
    names::webhooks::NAMESPACES,
    names::webhooks::HIERARCHY_CONFIGURATIONS,
    names::webhooks::SUBNAMESPACE_ANCHORS,
];

/// The one that judges the request with which the webhook is asked here.
const ASKED: &str = names::webhooks::SUBNAMESPACE_ANCHORS;

/// Those that hierarchical quotas depend on, where these are enforced.
const NEEDED_FOR_QUOTAS: [&str; 2] =
    [names::webhooks::HIERARCHICAL_RESOURCE_QUOTAS, names::webhooks::RESOURCE_QUOTAS_STATUS];

/// Those that Accurate's API depends on, where it is enabled.
const NEEDED_FOR_ACCURATE: [&str; 1] = [hns_api::accurate::names::webhooks::SUB_NAMESPACE];

/// Runs these checks.
pub(super) async fn check(session: &Session, settings: &SharedSettings, now: Timestamp) -> Vec<Finding> {
    let namespace = session.installation().await;
    let (quotas, accurate) = (settings.hierarchical_quotas.enabled, settings.accurate.enabled);
    let of_quotas = NEEDED_FOR_QUOTAS.into_iter().filter(|_| quotas);
    let of_accurate = NEEDED_FOR_ACCURATE.into_iter().filter(|_| accurate);
    let needed: Vec<&str> = NEEDED.into_iter().chain(of_quotas).chain(of_accurate).collect();
    let Registrations { mut findings, bundle, calls_webhook } = registrations(session, &needed).await;
    findings.extend(policies(session, quotas).await);
    let webhook = if calls_webhook {
        webhook(session).await
    } else {
        Finding::note("webhook", format!("it was not asked, because the registration lacks {ASKED}"))
    };
    let answers = webhook.level == Level::Ok;
    let [controller, of_webhook] = [names::CONTROLLER_DEPLOYMENT, names::WEBHOOK_DEPLOYMENT]
        .map(async |name| session.call(session.within::<Deployment>(namespace).get_opt(name)).await);
    let (controller, of_webhook) = futures::join!(controller, of_webhook);
    let known = |found: &Result<Option<Deployment>, Problem>| found.as_ref().ok().cloned().flatten();
    let flags = Flags::of(known(&controller).iter().chain(&known(&of_webhook)));
    let leases = session.within::<Lease>(namespace);
    let lease = match session.call(leases.get_opt(&flags.lease)).await {
        Ok(found) => lease((namespace, &flags.lease), found.as_ref(), now),
        Err(problem) => Finding::unread("lease", &problem),
    };
    let leads = lease.level == Level::Ok;
    // Without Deployments, but with a program that works, both may run elsewhere.
    let is_elsewhere = (leads || answers) && matches!((&controller, &of_webhook), (Ok(None), Ok(None)));
    for (name, found, runs) in
        [(names::CONTROLLER_DEPLOYMENT, controller, leads), (names::WEBHOOK_DEPLOYMENT, of_webhook, answers)]
    {
        findings.push(match found {
            Ok(found) => deployment(name, namespace, found.as_ref(), (runs, is_elsewhere)),
            Err(problem) => Finding::unread(format!("deployment {name}"), &problem),
        });
    }
    let secrets = session.within::<Secret>(namespace);
    findings.push(match session.call(secrets.get_opt(names::WEBHOOK_CERTIFICATE_SECRET)).await {
        Ok(None) if answers || !flags.internal_certificate => elsewhere(answers),
        Ok(secret) => certificate(secret.as_ref(), bundle.as_deref(), now.as_second()),
        Err(problem) => Finding::unread("certificate", &problem),
    });
    findings.extend([webhook, lease]);
    findings.extend(configuration::check(session).await);
    findings
}

/// What the flags of the Deployments say; without them, the defaults.
#[derive(Debug, PartialEq, Eq)]
struct Flags {
    /// The name of the controller's Lease.
    lease: String,
    /// Whether the controller makes the certificate.
    internal_certificate: bool,
}

impl Flags {
    fn of<'a>(deployments: impl Iterator<Item = &'a Deployment>) -> Self {
        let specs = deployments.filter_map(|it| it.spec.as_ref()?.template.spec.as_ref());
        let flags: Vec<(&str, &str)> = specs
            .flat_map(|it| &it.containers)
            .flat_map(|it| it.args.iter().flatten())
            .map(|it| it.trim_start_matches('-'))
            .map(|it| it.split_once('=').unwrap_or((it, "true")))
            .collect();
        let flag = |name: &str| flags.iter().rfind(|(flag, _)| *flag == name).map(|(_, value)| *value);
        Self {
            lease: flag("leader-election-id").unwrap_or(names::CONTROLLER_LEASE).to_owned(),
            internal_certificate: flag("enable-internal-cert-management") == Some("true"),
        }
    }
}

/// The registrations of the webhook.
struct Registrations {
    findings: Vec<Finding>,
    /// The certificate authority in them.
    bundle: Option<Vec<u8>>,
    /// Whether the API server calls the webhook for the request with which it is asked here; also if that is not known.
    calls_webhook: bool,
}

async fn registrations(session: &Session, needed: &[&str]) -> Registrations {
    let (mut findings, mut bundle, mut calls_webhook) = (Vec::new(), None, true);
    let name = names::VALIDATING_WEBHOOK_CONFIGURATION;
    let api = session.all::<ValidatingWebhookConfiguration>();
    match session.call(api.get_opt(name)).await {
        Ok(found) => {
            let webhooks = found.map(|it| it.webhooks.unwrap_or_default());
            let webhooks: Option<Webhooks> =
                webhooks.map(|all| all.into_iter().map(|it| (it.name, it.client_config)).collect());
            bundle = authority(webhooks.as_deref());
            calls_webhook = webhooks.iter().flatten().any(|(name, _)| name == ASKED);
            findings.push(registration(name, webhooks, needed));
        }
        Err(problem) => findings.push(Finding::unread(format!("registration {name}"), &problem)),
    }
    let name = names::MUTATING_WEBHOOK_CONFIGURATION;
    let api = session.all::<MutatingWebhookConfiguration>();
    findings.push(match session.call(api.get_opt(name)).await {
        Ok(found) => {
            let webhooks = found.map(|it| it.webhooks.unwrap_or_default());
            let webhooks =
                webhooks.map(|all| all.into_iter().map(|it| (it.name, it.client_config)).collect());
            let needed = [names::webhooks::NAMESPACE_LABEL];
            registration(name, webhooks, if labels_by_policy(session).await { &[] } else { &needed })
        }
        Err(problem) => Finding::unread(format!("registration {name}"), &problem),
    });
    Registrations { findings, bundle, calls_webhook }
}

/// Whether a policy labels namespaces, in place of the mutating webhook.
async fn labels_by_policy(session: &Session) -> bool {
    let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicyBinding");
    let bindings = Api::<DynamicObject>::all_with(session.client.clone(), &ApiResource::from_gvk(&kind));
    let found = session.call(bindings.get_metadata_opt(names::policies::DEFAULTS)).await;
    found.is_ok_and(|it| it.is_some())
}

type Webhooks = Vec<(String, WebhookClientConfig)>;

fn authority(webhooks: Option<&[(String, WebhookClientConfig)]>) -> Option<Vec<u8>> {
    webhooks?.iter().find_map(|(_, client)| client.ca_bundle.clone()).map(|it| it.0)
}

fn registration(name: &str, webhooks: Option<Webhooks>, needed: &[&str]) -> Finding {
    let subject = format!("registration {name}");
    let Some(webhooks) = webhooks else {
        return Finding::wrong(subject, "does not exist, so its rules are not enforced", REPAIR);
    };
    let lacking = |it: &&&str| !webhooks.iter().any(|(name, _)| name == **it);
    let lacking: Vec<String> = needed.iter().filter(lacking).map(|it| (*it).to_owned()).collect();
    if !lacking.is_empty() {
        return Finding::wrong(subject, format!("lacks {}", some(&lacking)), REPAIR);
    }
    let without = |(_, client): &&(String, WebhookClientConfig)| {
        client.service.is_some() && client.ca_bundle.as_ref().is_none_or(|it| it.0.is_empty())
    };
    let without: Vec<String> = webhooks.iter().filter(without).map(|(name, _)| name.clone()).collect();
    if !without.is_empty() {
        return Finding::wrong(
            subject,
            format!(
                "names no authority for {}, so the API server does not trust the webhook",
                some(&without)
            ),
            "Put the certificate of the authority that signed the webhook's into clientConfig.caBundle.",
        );
    }
    Finding::ok(subject, "complete")
}

async fn policies(session: &Session, quotas: bool) -> Vec<Finding> {
    let policies = session.all::<ValidatingAdmissionPolicy>();
    let bindings = session.all::<ValidatingAdmissionPolicyBinding>();
    let mut missing = Vec::new();
    let other = if quotas { names::policies::QUOTAS_DISABLED } else { names::policies::QUOTAS };
    let needed: Vec<&str> = names::policies::ALL.into_iter().filter(|name| *name != other).collect();
    for name in &needed {
        let found = match session.call(policies.get_metadata_opt(name)).await {
            Ok(Some(_)) => session.call(bindings.get_metadata_opt(name)).await.map(|it| it.is_some()),
            other => other.map(|it| it.is_some()),
        };
        match found {
            Ok(true) => {}
            Ok(false) => missing.push((*name).to_owned()),
            Err(problem) => return vec![Finding::unread("policies", &problem)],
        }
    }
    vec![policy(&missing, needed.len())]
}

fn policy(missing: &[String], needed: usize) -> Finding {
    if missing.is_empty() {
        return Finding::ok("policies", "all exist and are bound");
    }
    if missing.len() == needed {
        let text = "none are installed and bound, so their rules hold only while the webhook is registered and runs; the controller installs \
                    them unless it runs with --admission-policies=false";
        return Finding::note("policies", text);
    }
    let text = format!("missing or not bound: {}", some(missing));
    Finding::wrong("policies", text, REPAIR)
}

/// Whether the webhook answers a dry run of a request that it judges: in `default`, or where the user may not do that, in the
/// namespace of `-n`.
async fn webhook(session: &Session) -> Finding {
    let anchor = SubnamespaceAnchor::new("hns-doctor", SubnamespaceAnchorSpec::default());
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let ask = async |namespace: &str| {
        let anchors = session.within::<SubnamespaceAnchor>(namespace);
        session.call(anchors.create(&dry_run, &anchor)).await.map(drop)
    };
    match ask("default").await {
        Err(problem) if problem.is_forbidden() && session.names_namespace => {
            answered(ask(&session.namespace).await, &session.namespace)
        }
        answer => answered(answer, "default"),
    }
}

fn answered(answer: Result<(), Problem>, namespace: &str) -> Finding {
    const SUBJECT: &str = "webhook";
    match answer {
        Ok(()) => Finding::ok(SUBJECT, "answers"),
        Err(problem) if problem.is_denied() => Finding::ok(SUBJECT, "answers"),
        Err(problem) if problem.silent_webhook().is_some() => Finding::wrong(
            SUBJECT,
            format!("the API server cannot call it: {problem}"),
            "Check the pods of hns-webhook, its Service, and the network between them and the API server.",
        ),
        Err(problem @ Problem::TimedOut(_)) => Finding::wrong(
            SUBJECT,
            format!("{problem} for a request that hns-webhook must judge"),
            "hns-webhook may hang: check its pods and their logs, and the network between them and the API server.",
        ),
        Err(problem) if problem.is_forbidden() => {
            let text = format!("you may not create subnamespaceanchors in {namespace}, so it was not asked");
            Finding::note(SUBJECT, text)
        }
        Err(problem) => Finding::note(SUBJECT, format!("it was not asked: {problem}")),
    }
}

/// `runs` means that the program works wherever it is, and `may_run` that it may be elsewhere.
fn deployment(
    name: &str,
    namespace: &str,
    found: Option<&Deployment>,
    (runs, may_run): (bool, bool),
) -> Finding {
    let subject = format!("deployment {name}");
    let Some(found) = found else {
        let text = format!("is not in namespace {namespace}");
        if runs {
            return Finding::note(subject, format!("{text}; the program runs elsewhere"));
        }
        if may_run {
            return Finding::note(subject, format!("{text}; the program may run elsewhere"));
        }
        return Finding::wrong(
            subject,
            text,
            "Install hns again as it was (`helm upgrade`, or `kubectl apply -f config/default.yaml`, which also sets settings, images \
             and rights to those of that file; not while definitions are missing and a controller runs elsewhere), or name another \
             namespace with --installation.",
        );
    };
    let wanted = found.spec.as_ref().and_then(|it| it.replicas).unwrap_or(1);
    let ready = found.status.as_ref().and_then(|it| it.ready_replicas).unwrap_or(0);
    if wanted == 0 || ready < wanted {
        return Finding::wrong(
            subject,
            format!("{ready} of {wanted} replicas are ready"),
            format!(
                "`kubectl describe pod -n {namespace}` shows the reason; /readyz on port 8081 of a pod lists what is missing."
            ),
        );
    }
    Finding::ok(subject, format!("{ready} of {wanted} replicas are ready"))
}

/// There is no Secret of the controller's, and it does not seem to make one.
fn elsewhere(answers: bool) -> Finding {
    let name = names::WEBHOOK_CERTIFICATE_SECRET;
    let text = if answers {
        format!("there is no Secret {name}; the webhook has one from elsewhere")
    } else {
        format!("not checked: there is no Secret {name}, and the webhook may have one from elsewhere")
    };
    Finding::note("certificate", text)
}

fn certificate(secret: Option<&Secret>, bundle: Option<&[u8]>, now: i64) -> Finding {
    let name = names::WEBHOOK_CERTIFICATE_SECRET;
    let make = "Make or renew the certificate; the controller does so with --enable-internal-cert-management; otherwise certs/README.md has a recipe, and it is loaded without a restart.";
    let Some(secret) = secret else {
        return Finding::wrong("certificate", format!("there is no Secret {name}"), make);
    };
    let data = secret.data.clone().unwrap_or_default();
    let Some(pem) = data.get("tls.crt").filter(|it| !it.0.is_empty()) else {
        let text = format!("the Secret {name} has no certificate yet");
        let hint = "With --enable-internal-cert-management, the leading controller writes it; otherwise certs/README.md has a recipe.";
        return Finding::wrong("certificate", text, hint);
    };
    let Some(expires) = tls::not_after(&pem.0) else {
        return Finding::wrong(
            "certificate",
            format!("tls.crt in the Secret {name} holds no certificate"),
            make,
        );
    };
    let left = expires - now;
    if left <= 0 {
        return Finding::wrong("certificate", format!("expired {} days ago", -left / DAY), make);
    }
    if left < SOON {
        return Finding::wrong("certificate", format!("expires in {} days", left / DAY), make);
    }
    let authority = data.get("ca.crt").map(|it| text(&it.0));
    if let (Some(authority), Some(bundle)) = (authority, bundle)
        && !text(bundle).contains(&authority)
    {
        return Finding::wrong(
            "certificate",
            format!("the registrations name another authority than ca.crt in the Secret {name}"),
            "Put ca.crt into clientConfig.caBundle of the registrations.",
        );
    }
    Finding::ok("certificate", format!("valid for {} days", left / DAY))
}

fn text(pem: &[u8]) -> String {
    String::from_utf8_lossy(pem).trim().to_owned()
}

fn lease((namespace, name): (&str, &str), found: Option<&Lease>, now: Timestamp) -> Finding {
    let start = "Check the controller's pods and their logs: without a leader nothing is copied or labelled.";
    let Some(found) = found else {
        return Finding::wrong(
            "lease",
            format!("no controller leads: there is no Lease {name} in namespace {namespace}"),
            format!("{start} If its flag --leader-election-id names another Lease, look at that one."),
        );
    };
    let spec = found.spec.as_ref();
    let holder = spec.and_then(|it| it.holder_identity.as_deref()).filter(|it| !it.is_empty());
    let (Some(spec), Some(holder)) = (spec, holder) else {
        return Finding::wrong("lease", "no controller leads", start);
    };
    let renewed = spec.renew_time.as_ref().map(|it| it.0.as_second());
    let duration = i64::from(spec.lease_duration_seconds.unwrap_or(0));
    match renewed {
        Some(renewed) if now.as_second() - renewed <= duration.max(1) * 2 => {
            Finding::ok("lease", format!("{holder} leads"))
        }
        _ => Finding::wrong("lease", format!("{holder} led, and has not renewed its lease"), start),
    }
}
