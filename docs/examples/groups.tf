# Two Auto Scaling groups for batch jobs on EKS, as groups.yaml. Not validated: see docs/groups.md.

variable "cluster" {
  description = "The EKS cluster: aws eks describe-cluster prints these."
  type = object({
    name         = string
    endpoint     = string
    certificate  = string
    service_cidr = string
  })
}

variable "subnet" {
  description = "A private subnet. A cluster placement group lies in one zone."
  type        = string
}

variable "security_groups" {
  description = "The security groups of the nodes, among them that of the cluster."
  type        = list(string)
}

variable "instance_profile" {
  description = "The name of the instance profile of the nodes, whose role may join the cluster."
  type        = string
}

variable "instance_type" {
  description = "The instance type of the nodes."
  type        = string
  default     = "m5.4xlarge"
}

variable "groups" {
  description = "The names of the placement groups, each with an Auto Scaling group of its own."
  type        = set(string)
  default     = ["batch-a", "batch-b"]
}

variable "max_size" {
  description = "The most nodes of each group."
  type        = number
  default     = 20
}

data "aws_ssm_parameter" "image" {
  name = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id"
}

locals {
  discovery = "k8s.io/cluster-autoscaler"
}

resource "aws_placement_group" "batch" {
  for_each = var.groups
  name     = "${var.cluster.name}-${each.key}"
  strategy = "cluster"
}

resource "aws_launch_template" "batch" {
  for_each               = var.groups
  name_prefix            = "${var.cluster.name}-${each.key}-"
  image_id               = data.aws_ssm_parameter.image.value
  instance_type          = var.instance_type
  vpc_security_group_ids = var.security_groups

  iam_instance_profile {
    name = var.instance_profile
  }

  placement {
    group_name = aws_placement_group.batch[each.key].name
  }

  metadata_options {
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  user_data = base64encode(yamlencode({
    apiVersion = "node.eks.aws/v1alpha1"
    kind       = "NodeConfig"
    spec = {
      cluster = {
        name                 = var.cluster.name
        apiServerEndpoint    = var.cluster.endpoint
        certificateAuthority = var.cluster.certificate
        cidr                 = var.cluster.service_cidr
      }
      kubelet = {
        flags = [
          "--node-labels=prophet.dev/placement-group=${each.key}",
          "--register-with-taints=batch=true:NoSchedule",
        ]
      }
    }
  }))
}

resource "aws_autoscaling_group" "batch" {
  for_each              = var.groups
  name_prefix           = "${var.cluster.name}-${each.key}-"
  min_size              = 0
  max_size              = var.max_size
  vpc_zone_identifier   = [var.subnet]
  protect_from_scale_in = true

  launch_template {
    id      = aws_launch_template.batch[each.key].id
    version = aws_launch_template.batch[each.key].latest_version
  }

  tag {
    key                 = "kubernetes.io/cluster/${var.cluster.name}"
    value               = "owned"
    propagate_at_launch = true
  }

  dynamic "tag" {
    for_each = {
      "enabled"                                         = "true"
      (var.cluster.name)                                = "owned"
      "node-template/label/prophet.dev/placement-group" = each.key
      "node-template/taint/batch"                       = "true:NoSchedule"
    }

    content {
      key                 = "${local.discovery}/${tag.key}"
      value               = tag.value
      propagate_at_launch = false
    }
  }

  lifecycle {
    # cluster-autoscaler changes it.
    ignore_changes = [desired_capacity]
  }
}
