#!/bin/sh
# Copies the /etc of the deployment that runs for `ostree admin finalize-staged`, without what is adopted: an adopted
# path is as the image of that deployment has it. Nothing but the copy, in memory, is changed.
# $1: the deployment's etc. $2: the list, two lines a path: what the machine had when it was adopted, and the path.
# $3, $4: the root of the machine, and the most KiB that are copied, in a test.
set -eu
umask 077
export LC_ALL=C
etc=$1 list=$2 root=${3:-}
image=$root/usr/etc out=$root/run/mosb-adopt
# The copy takes memory while the machine shuts down. The /etc of a machine has some tens of MiB.
limit=${4:-262144}

# Goes to the directory $2 of the tree $1; fails if it is none, or if a part of its path is a link.
enter() {
    cd -P -- "$1/$2" 2> /dev/null && [ "$(pwd -P)" = "$1${2:+/$2}" ]
}

is_there() {
    [ -e "$1" ] || [ -L "$1" ]
}

# What a path is, as the list has it.
state() {
    if [ -L "$1" ]; then
        echo "l - $(stat -c '%u %g' -- "$1") $(readlink -n -- "$1" | sha256sum | cut -d ' ' -f 1)"
    elif [ -f "$1" ]; then
        echo "f $(stat -c '%a %u %g' -- "$1") $(sha256sum < "$1" | cut -d ' ' -f 1)"
    elif [ -d "$1" ]; then
        echo "d $(stat -c '%a %u %g' -- "$1") -"
    elif [ -e "$1" ]; then
        echo o
    else
        echo -
    fi
}

like_image() {
    chown --reference="$image/$1" -- "$2"
    chmod --reference="$image/$1" -- "$2"
}

# Goes to the directory $1 of the copy. Those that the machine lacks are made as the image has them.
make_folder() {
    rest=$1 at=
    enter "$out/new" ''
    while [ -n "$rest" ]; do
        part=${rest%%/*} at=${at:+$at/}${rest%%/*}
        case $rest in */*) rest=${rest#*/} ;; *) rest= ;; esac
        if ! is_there "./$part"; then
            mkdir -- "./$part"
            like_image "$at" "./$part"
        fi
        enter "$out/new" "$at" || return 1
    done
}

stays() {
    echo "mosb: /etc/$path: $1, so it stays as it is"
}

# In a subshell: known and path are a path's lines.
adopt() {
    folder='' name=$path in_image=''
    case $path in */*) folder=${path%/*} name=${path##*/} ;; esac
    if enter "$image" "$folder" && is_there "./$name"; then in_image=yes; fi
    if [ "$known" = - ] && [ "$in_image" ]; then
        make_folder "$folder" || { stays "a part of its path is no directory"; return; }
    elif ! enter "$out/new" "$folder"; then
        stays "it is not where it was"
        return
    fi
    if [ "$(state "./$name")" != "$known" ]; then
        stays "it was changed after it was adopted"
        return
    fi
    case $known-$in_image in
    d*-yes) like_image "$path" "./$name" ;;
    d*) printf '%s\n' "$path" >> "$out/folders" ;;
    *-yes)
        rm -f -- "./$name"
        cp -a -- "$image/$path" "./$name"
        ;;
    *) rm -f -- "./$name" ;;
    esac
}

rm -rf "$out"
if ! [ -e "$root/run/ostree/staged-deployment" ] || ! [ -e "$list" ]; then exit 0; fi
size=$(du -skx -- "$etc" | cut -f 1)
if [ "$size" -gt "$limit" ]; then
    echo "mosb: /etc has $size KiB, and at most $limit are copied, so nothing is adopted; move what are not settings" >&2
    exit 1
fi
trap 'code=$?; [ "$code" = 0 ] || rm -rf "$out"; exit "$code"' EXIT
mkdir "$out"
# What is mounted below it is not the deployment's.
cp -ax -- "$etc" "$out/new"
: > "$out/folders"
while IFS= read -r known && IFS= read -r path; do
    (adopt)
done < "$list"
# The deepest first; what holds something else stays.
sort -r "$out/folders" | while IFS= read -r path; do
    rmdir -- "$out/new/$path" 2> /dev/null || true
done
mv "$out/new" "$out/etc"
