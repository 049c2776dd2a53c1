# From the tables of decisions of evaluation.md, the figures that each log comes to: awk -f summary.awk BLOCKS.
#
# A table of means has its errors behind ±. Between constants, pending minutes and idling are interpolated.

/^## / { log_name = substr($2, 1, length($2) - 1); next }
/^### / { is_wanted = $0 == "### Decisions"; constants = 0; next }
!is_wanted { next }

# Fields: policy, pending minutes, ..., extra idle % (11th), extra cost % (12th).
{ for (i = 2; i <= NF; i++) { split($i, parts, "±"); value[i] = parts[1]; error[i] = parts[2] } }

$1 == "reactive" { reactive = value[2]; constant(reactive, 0) }
$1 ~ /^constant:/ { constant(value[2], value[11]) }
$1 == "ensemble" { pending = value[2]; idle = value[11]; cost = value[12]; cost_error = error[12] }
$1 ~ /^rates:[0-9]/ && (!(log_name in rates) || value[12] < rates[log_name]) { rates[log_name] = value[12] }
$1 == "oracle" {
  if (!rows) {
    print "| log | waiting taken off, % | extra idle, % | idle against a constant that lets jobs wait as long, % | cost, % | cost with the rates known, % | oracle's, % |"
    print "| --- | --- | --- | --- | --- | --- | --- |"
  }
  rows++
  shown_error = cost_error == "" ? "" : " ± " cost_error
  printf "| %s | %.1f | %.2f | %s | %s%s | %s | %s |\n", log_name, 100 * (1 - pending / reactive), idle,
    against(), cost, shown_error, rates[log_name], value[12]
}

function constant(minutes, idling) { constants++; held_pending[constants] = minutes + 0; held_idle[constants] = idling + 0 }

function against(    at, part, equal) {
  for (at = 2; at <= constants; at++) {
    if (held_pending[at] <= pending) {
      part = (held_pending[at - 1] - pending) / (held_pending[at - 1] - held_pending[at])
      equal = held_idle[at - 1] + part * (held_idle[at] - held_idle[at - 1])
      if (equal <= 0) break
      return sprintf("%.0f", 100 * (idle / equal - 1))
    }
  }
  return "-"
}
