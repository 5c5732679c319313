# Reads what a test program of Catch2 printed and prints a line CASE<tab>ERROR for each assertion that
# failed, at most two of a case and 40 in all. With -v want=last it prints the case that ended last
# instead (the program was given `-d yes`), which is the one before a case that ended the process.
function trimmed(text) {
  gsub(/\t/, " ", text)
  sub(/^ +/, "", text)
  sub(/[ \r]+$/, "", text)
  return text
}
function finish() {
  if (error != "" && want != "last" && ++seen[name] <= 2 && ++printed <= 40)
    print (name == "" ? "unnamed" : name) "\t" substr(error, 1, 400)
  error = ""
}
/^[0-9]+\.[0-9]+ s: / {
  last = $0
  sub(/^[0-9.]+ s: /, "", last)
}
/^----------------------*$/ {
  finish()
  in_header = !in_header
  if (in_header) { name = ""; header_lines = 0 }
  next
}
/: FAILED:$/ {
  finish()
  in_header = 0
  error = trimmed($0)
  error_lines = 1
  next
}
in_header {
  if (++header_lines > 8) in_header = 0  # these dashes were the program's own
  else name = name (name == "" ? "" : " ") trimmed($0)
  next
}
error != "" && /^ *$/ { finish() }
error != "" && error_lines < 8 { error = error " | " trimmed($0); ++error_lines }
END {
  finish()
  if (want == "last" && last != "") print trimmed(last)
}
