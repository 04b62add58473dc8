# shellcheck shell=bash
# Sourced by what makes or deletes something that is billed: prices.tsv, and the most that a training may cost.

prices=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/prices.tsv

price_date() {  # of what day the prices are, and that they are old after 90 days
  python3 -c 'import datetime, re, sys
day = re.search(r"as of ([0-9-]+)", open(sys.argv[1], encoding="utf-8").read()).group(1)
age = (datetime.date.today() - datetime.date.fromisoformat(day)).days
print(day + f", {age} days ago: scripts/aws/prices.py gets newer ones" * (age > 90))' "$prices"
}

price_of() {  # price_of THING: dollars an hour (a file system: for a GB and a month), or ? if the table has no price
  awk -F'\t' -v thing="$1" '$1 == thing {found = $2} END {print found == "" ? "?" : found}' "$prices"
}

say_price() {  # say_price TYPE NODES: what so many cost at most while they run. A cluster's trainings have no end that bounds it.
  local each all
  each=$(price_of "$1")
  all=$(awk -v nodes="$2" -v price="$each" 'BEGIN {print price == "?" ? "?" : sprintf("%.2f", nodes * price)}')
  say "At most $2 × $1: \$$all an hour, each \$$each from its start to its end (on demand, us-east-1, $(price_date))"
}

file_system_costs() {  # file_system_costs GIB DEPLOYMENT
  awk -v price="$(price_of "fsx-$2")" -v size="$1" -v kind="$2" \
    'BEGIN {printf "%s GiB %s, $%s an hour\n", size, kind, price == "?" ? "?" : sprintf("%.2f", price * size / 730)}'
}

# estimate TYPE NODES HOURS ATTEMPTS [JOBS]: says what a training may cost at most, and refuses it above MOST_DOLLARS. A type
# without a price is refused if MOST_DOLLARS is set, since nobody could say whether it is kept.
estimate() {
  local price hours dollars
  price=$(price_of "$1")
  [[ $3 =~ ^[0-9]+(\.[0-9]+)?$ ]] || fail "HOURS is '$3'" "give a number, such as 24 or 0.5"
  hours=$(awk -v nodes="$2" -v hours="$3" -v attempts="$4" -v jobs="${5:-1}" 'BEGIN {printf "%.0f\n", nodes * hours * attempts * jobs}')
  dollars=$(awk -v hours="$hours" -v price="$price" 'BEGIN {if (price == "?") print "?"; else printf "%.0f\n", hours * price}')
  say "At most $hours hours of $1 (${5:+$5 jobs × }$2 × $3 h × $4 attempts): \$$dollars at $price an hour (on demand, us-east-1, $(price_date))"
  if [ -n "${MOST_DOLLARS:-}" ]; then
    [[ $MOST_DOLLARS =~ ^[0-9]+$ ]] || fail "MOST_DOLLARS is '$MOST_DOLLARS'" "give whole dollars"
    [ "$dollars" != "?" ] || fail "prices.tsv has no price for $1" "add it, or unset MOST_DOLLARS"
    [ "$dollars" -le "$MOST_DOLLARS" ] || fail "that is more than MOST_DOLLARS=$MOST_DOLLARS" "fewer hours, attempts or nodes"
  fi
}
