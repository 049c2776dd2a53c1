//! `docs/examples/groups.yaml`, the example for `CloudFormation`, in the emulated AWS.

use std::path::Path;
use std::process::Command;

use tests::built;
use tests::moto::Moto;

use super::{found, line};

/// Creates a stack of the template that the first argument names. The emulator has no public
/// parameters of images, and it leaves out placement groups.
const CREATE: &str = r#"
import boto3, sys
ec2 = boto3.client("ec2")
subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
group = ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]
template = open(sys.argv[1]).read().replace("AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>", "String")
values = {
    "ClusterName": "test", "ClusterEndpoint": "https://example.com", "ClusterCertificate": "abc",
    "ServiceCidr": "10.100.0.0/16", "Subnet": subnet, "SecurityGroups": group,
    "InstanceProfile": "nodes", "Image": "ami-12345678",
}
parameters = [{"ParameterKey": key, "ParameterValue": value} for key, value in values.items()]
boto3.client("cloudformation").create_stack(StackName="batch", TemplateBody=template, Parameters=parameters)
"#;

#[tokio::test]
async fn the_groups_of_the_cloudformation_example_are_found() {
    let moto = Moto::start().await.unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples/groups.yaml");
    let mut python = Command::new(built::control_plane("python/bin/python").unwrap());
    python.args(["-c", CREATE]).arg(example).envs(moto.environment());
    let output = python.env("AWS_DEFAULT_REGION", tests::moto::REGION).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let found = found(&moto).await;
    assert!(found.problems.is_empty(), "{:?}", found.problems);
    // CloudFormation ends the names by random letters.
    let lines: Vec<String> = found
        .groups
        .iter()
        .map(line)
        .map(|line| line.split_once(": ").unwrap().1.to_owned())
        .collect();
    let of = |placement_group: &str| {
        format!(
            "m5.4xlarge OnDemand - us-east-1a 0/0/20, 16 cpus 64 GiB 110 pods, prophet.dev/placement-group={placement_group}, batch=true:NoSchedule"
        )
    };
    assert_eq!(lines, [of("batch-a"), of("batch-b")]);
}
