//! `thermocline cluster certs`: the certificates of a cluster.

use environment::Environment;
use serde_json::json;
use wire::Role;
use wire::tls::{Authority, CERTIFICATE_DAYS};

use super::node::of_wire;
use crate::commands::Context;
use crate::commands::cluster::arguments::{ClusterCerts, RoleName};
use crate::failure::{Failure, Outcome};
use crate::output;

fn role_of(name: RoleName) -> Role {
    match name {
        RoleName::Coordinator => Role::Coordinator,
        RoleName::Ltc => Role::Ltc,
        RoleName::Stoc => Role::Stoc,
        RoleName::Client => Role::Client,
        RoleName::Admin => Role::Admin,
    }
}

pub(super) fn run(context: &Context, arguments: &ClusterCerts) -> Outcome {
    let environment = Environment::real();
    // The number of a cluster that is made now.
    let cluster = environment.seed().get();
    if arguments.role.is_some() && !arguments.dir.join("ca.pem").exists() {
        let dir = arguments.dir.display();
        let message = format!("{dir} has no ca.pem: `cluster certs {dir}` makes an authority");
        return Err(Failure::usage(message));
    }
    let authority = Authority::open(&arguments.dir, cluster, &environment).map_err(of_wire)?;
    let roles = match arguments.role {
        Some(name) => vec![role_of(name)],
        None => Role::ALL.to_vec(),
    };
    let mut made = Vec::new();
    for role in roles {
        let files = authority.make(role, arguments.node).map_err(of_wire)?;
        made.push(files.certificate.display().to_string());
    }
    let cluster = format!("{:016x}", authority.cluster());
    if context.shared.json {
        return output::json_line(&json!({ "cluster": cluster, "certificates": made }));
    }
    if context.shared.quiet {
        return Ok(());
    }
    output::line(&format!("cluster {cluster}, valid for {CERTIFICATE_DAYS} days:"))?;
    made.iter().try_for_each(|path| output::line(&format!("  {path}")))?;
    output::line(
        "keep ca-key.pem apart from the machines of the cluster: it makes further certificates",
    )
}
