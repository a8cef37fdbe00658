# Sourced by bash before each prompt: says why the way out refused something since the last one. curl and git print no
# more than "CONNECT tunnel failed, response 403".
if [ -r /tmp/.codehub-refused ]; then
  mapfile -t __codehub_lines < /tmp/.codehub-refused
  if [ -n "${__codehub_told+set}" ]; then
    [ "$__codehub_told" -le "${#__codehub_lines[@]}" ] || __codehub_told=0
    __codehub_last=
    for __codehub_line in "${__codehub_lines[@]:$__codehub_told}"; do
      [ "$__codehub_line" = "$__codehub_last" ] || printf 'CodeHub: %s\n' "$__codehub_line" >&2
      __codehub_last=$__codehub_line
    done
  fi
  __codehub_told=${#__codehub_lines[@]}
  unset __codehub_lines __codehub_line __codehub_last
else
  __codehub_told=0
fi
