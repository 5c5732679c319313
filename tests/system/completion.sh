# Completion as the shells do it, and the manual pages as roff reads them; shells and tools that are not here are named
# and left out, bash is always tried.
. "$(dirname "$0")/launcher.sh"

mkdir -p configs/deep runs/one
touch configs/a.json configs/deep/b.json hosts
dslaunch completion bash > dslaunch.bash || fail "no script for bash"

# completes <wanted words> <typed words...>: the last one is being typed.
completes() {
  local want=$1 got
  shift
  got=$(bash --norc -c '
    . ./dslaunch.bash
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _dslaunch
    printf "%s\n" "${COMPREPLY[@]}" | sort | xargs' bash "$@")
  [ "$got" = "$want" ] || fail "bash: '$*' gives '$got', expected '$want'"
}

completes "stack status" dslaunch sta
completes "tokenize top" dslaunch to
completes "configs" dslaunch conf
completes "--hang-after --help --hostfile" dslaunch run --h
completes "--hang-after --help --hostfile" dslaunch train.json --h
completes "auto never required" dslaunch train.json --resume ""
completes "auto" dslaunch run train.json --resume = au
completes "configs/a.json configs/deep" dslaunch check configs/
completes "runs/one" dslaunch status runs/
completes "pause" dslaunch ctl pa
completes "runs/one" dslaunch ctl pause runs/
completes "runs/one" dslaunch tail --rank 3 -n 10 runs/
completes "hosts" dslaunch train.json --hostfile ho
completes "" dslaunch train.json --num-ranks ""
completes "bash fish zsh" dslaunch completion ""
completes "zero_optimization." dslaunch train.json zero_o
completes "zero_optimization.overlap_comm=" dslaunch run train.json train.steps = 7 zero_optimization.overlap_c
completes "cpu none nvme" dslaunch train.json zero_optimization.offload_param.device = ""
completes "false true" dslaunch train.json zero_optimization.overlap_comm =
completes "optimizer." dslaunch explain optimizer
completes "optimizer.params.lr optimizer.params.lr_decay" dslaunch explain train.json optimizer.params.lr

if command -v fish > /dev/null; then
  dslaunch completion fish > dslaunch.fish
  fish_completes() {
    local got
    got=$(fish --no-config -c 'source dslaunch.fish; complete -C $argv[1]' "$2" | cut -f1 | sort | xargs)
    [ "$got" = "$1" ] || fail "fish: '$2' gives '$got', expected '$1'"
  }
  fish_completes "stack status" "dslaunch sta"
  fish_completes "auto never required" "dslaunch train.json --resume "
  fish_completes "--hang-after --help --hostfile" "dslaunch run --h"
  fish_completes "pause" "dslaunch ctl pa"
  fish_completes "zero_optimization." "dslaunch train.json zero_o"
  fish_completes "zero_optimization.overlap_comm=" "dslaunch train.json zero_optimization.overlap_c"
  fish_completes "zero_optimization.offload_param.device=nvme" \
    "dslaunch train.json zero_optimization.offload_param.device=nv"
else
  echo "no fish here: its script is not tried"
fi

if command -v zsh > /dev/null; then
  dslaunch completion zsh > _dslaunch
  zsh -n _dslaunch || fail "zsh cannot read its script"
  # A real line editor on a terminal of its own: Tab is typed, then a key that says what stands there.
  cat > zshrc <<'ZSH'
PS1=
fpath=($PWD $fpath)
autoload -U compinit && compinit -u -D
say_line() { print -r -- "$BUFFER" > line.txt; }
zle -N say_line
bindkey '^X' say_line
ZSH
  zsh_completes() {
    rm -f line.txt
    zsh -f -c '
      zmodload zsh/zpty
      zpty shell "zsh -f -i"
      zpty -w shell ". ./zshrc; print re\"\"ady"
      while zpty -r shell text; do [[ $text == *ready* ]] && break; done
      zpty -n -w shell "$1"$'"'\\t\\C-x'"'
      for i in {1..100}; do [[ -s line.txt ]] && break; sleep 0.1; done
      zpty -d shell' zsh "$2"
    [ "$(sed 's/ *$//' line.txt)" = "$1" ] || fail "zsh: '$2' becomes '$(cat line.txt)', expected '$1'"
  }
  zsh_completes "dslaunch status" "dslaunch stat"
  zsh_completes "dslaunch run --resume required" "dslaunch run --resume req"
  zsh_completes "dslaunch hosts --resume=required" "dslaunch hosts --resume=req"
  zsh_completes "dslaunch check configs/deep/b.json" "dslaunch check configs/deep/"
  zsh_completes "dslaunch run hosts zero_optimization.overlap_comm=" "dslaunch run hosts zero_optimization.overlap_c"
  zsh_completes "dslaunch run hosts zero_optimization.offload_param.device=nvme" \
    "dslaunch run hosts zero_optimization.offload_param.device=nv"
else
  echo "no zsh here: its script is not tried"
fi

expect 0 man --output man1
[ "$(ls man1 | wc -l)" -eq $(($(dslaunch --help | sed -n '/^Verbs/,/^$/p' | grep -c '^  ') + 1)) ] ||
  fail "not a page for each verb: $(ls man1 | xargs)"
expect_text man1/dslaunch-run.1 '.SH EXAMPLES'
for page in man1/*.1; do
  if command -v groff > /dev/null; then
    said=$(groff -man -Tutf8 -ww -z "$page" 2>&1)
    [ -z "$said" ] || fail "groff on $page: $said"
  fi
  if command -v mandoc > /dev/null; then
    said=$(mandoc -Tlint -W warning "$page" 2>&1 | grep -v "missing date")  # pages of one version are equal
    [ -z "$said" ] || fail "mandoc on $page: $said"
  fi
done
if command -v groff > /dev/null; then
  groff -man -Tascii -P-cbou man1/dslaunch-run.1 > page.txt
  expect_text page.txt '--hostfile FILE'
  expect_text page.txt 'dslaunch train.json --run-dir runs/mine --resume auto'
fi
dslaunch man status > status.1 && cmp -s status.1 man1/dslaunch-status.1 || fail "man status is another page"
expect 2 man stauts
expect_text err "did you mean the verb status?"
touch full
expect 74 man --output full/man1

finish
