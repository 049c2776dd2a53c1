# Prints the summary table of evaluation.md, one row per log, from the tables of decisions in
# BLOCKS:
#   awk -f summary.awk BLOCKS
#
# In a table of means, each mean is followed by ± and its standard error. Pending minutes and extra
# idle are interpolated between constants.

/^## / { log_name = substr($2, 1, length($2) - 1); next }
/^### / { is_wanted = $0 == "### Decisions"; constants = 0; next }
!is_wanted { next }

# The fields of a row: policy, pending minutes, ..., extra idle % (11th), extra cost % (12th).
{ for (i = 2; i <= NF; i++) { split($i, parts, "±"); value[i] = parts[1]; error[i] = parts[2] } }

$1 == "reactive" { reactive = value[2]; constant(reactive, 0) }
$1 ~ /^constant:/ { constant(value[2], value[11]) }
$1 == "ensemble" { pending = value[2]; idle = value[11]; cost = value[12]; cost_error = error[12] }
$1 ~ /^rates:[0-9]/ && (!(log_name in rates) || value[12] < rates[log_name]) { rates[log_name] = value[12] }
$1 == "oracle" {
  if (!rows) {
    print "| log | reduction of waiting, % | extra idle, % | idle relative to a constant with equal waiting, % | extra cost, % | extra cost of the cheapest `rates:Q`, % | extra cost of the oracle, % |"
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
