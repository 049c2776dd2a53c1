//! The parts that the other tests stand on, each alone: does what runs beside `prophet` behave?

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use tests::moto::Moto;

#[tokio::test]
async fn moto_serves_an_empty_aws() {
    let moto = Moto::start().await.unwrap();
    let groups = moto.autoscaling().describe_auto_scaling_groups().send().await.unwrap();
    assert_eq!(groups.auto_scaling_groups(), []);
    let types = moto.ec2().describe_instance_types().send().await.unwrap();
    assert!(types.instance_types().len() > 10);
}
