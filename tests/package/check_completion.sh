#!/bin/sh
# check_completion.sh TEGULA FOLDER: the shells that are there complete the command's words as TEGULA tells them to.
# Leaves with status 77 if there is no shell but this one.
set -eu
tegula=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
touch kernel.py
tried=0

# expect SHELL LINE FOUND WORD...: FOUND, words on lines, holds each WORD.
expect() {
  shell=$1 line=$2 found=$3
  shift 3
  for word in "$@"; do
    echo "$found" | grep -qxe "$word" || { echo "$shell completes '$line' by '$found', without '$word'"; exit 1; }
  done
}

if command -v bash > /dev/null; then
  tried=1
  "$tegula" completion bash > tegula.bash
  ask() { bash -c '. ./tegula.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tegula; printf "%s\n" "${COMPREPLY[@]}"' ask "$@"; }
  expect bash "tegula bu" "$(ask tegula bu)" build
  expect bash "tegula build --cpp" "$(ask tegula build --cpp)" --cpp-header
  expect bash "tegula build ker" "$(ask tegula build ker)" kernel.py
  expect bash "tegula completion " "$(ask tegula completion '')" bash fish zsh
fi
if command -v fish > /dev/null; then
  tried=1
  "$tegula" completion fish > tegula.fish
  ask() { HOME=$folder fish --no-config -c 'source tegula.fish; complete -C $argv[1]' "$1" | cut -f 1; }
  expect fish "tegula bu" "$(ask 'tegula bu')" build
  expect fish "tegula build --cpp" "$(ask 'tegula build --cpp')" --cpp-header
  expect fish "tegula build ker" "$(ask 'tegula build ker')" kernel.py
  expect fish "tegula completion " "$(ask 'tegula completion ')" bash fish zsh
fi
if command -v zsh > /dev/null; then
  tried=1
  "$tegula" completion zsh > _tegula
  # A terminal of its own; what would be added to the list is printed between two marks.
  cat > ask.zsh << 'END'
zmodload zsh/zpty
zpty -b child zsh -f
zpty -w child "PS1=; fpath=($PWD \$fpath); autoload -U compinit; compinit -u -d $PWD/dump"
zpty -w child 'compadd() { local -a hits; builtin compadd -O hits "$@"; print -rl -- "${hits[@]}" >> found; builtin compadd "$@" }'
zpty -w child 'bindkey "^I" complete-word; done-now() { touch ready; }; zle -N done-now; bindkey "^X" done-now; touch begun'
while [[ ! -e begun ]]; do sleep 0.02; done
zpty -w -n child "$1"$'\t\x18'
for i in {1..250}; do [[ -e ready ]] && break; sleep 0.02; done
zpty -d child
cat found
rm -f found ready begun
END
  ask() { zsh -f ask.zsh "$1"; }
  expect zsh "tegula bu" "$(ask 'tegula bu')" build
  expect zsh "tegula build --cpp" "$(ask 'tegula build --cpp')" --cpp-header
  expect zsh "tegula build ker" "$(ask 'tegula build ker')" kernel.py
  expect zsh "tegula build --from=ker" "$(ask 'tegula build --from=ker')" kernel.py
  expect zsh "tegula completion " "$(ask 'tegula completion ')" bash fish zsh
fi
[ $tried = 1 ] || exit 77
