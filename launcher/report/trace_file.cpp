#include "launcher/report/trace_file.h"

#include <rapidjson/document.h>

#include <string>
#include <vector>

#include "core/status/error.h"
#include "launcher/decide/text/json_text.h"

namespace ds {
namespace {

class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}
  bool at_end() const { return text_.empty(); }
  std::string_view next() {
    const size_t end = text_.find('\n');
    if (end == std::string_view::npos) throw DataError("trace: its last line has no end");
    const std::string_view line = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return line;
  }

 private:
  std::string_view text_;
};

class Object {
 public:
  explicit Object(std::string_view line) {
    document_.Parse<rapidjson::kParseIterativeFlag>(line.data(), line.size());
    if (document_.HasParseError() || !document_.IsObject()) {
      throw DataError("trace: a line is no JSON object");
    }
  }
  int64_t integer(const char* key) const {
    const auto found = document_.FindMember(key);
    if (found == document_.MemberEnd() || !found->value.IsInt64()) {
      throw DataError(fmt::format("trace: a line has no number '{}'", key));
    }
    return found->value.GetInt64();
  }
  std::string text(const char* key) const {
    const auto found = document_.FindMember(key);
    return found != document_.MemberEnd() && found->value.IsString() ? found->value.GetString()
                                                                     : "";
  }
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> out;
    const auto found = document_.FindMember(key);
    if (found == document_.MemberEnd() || !found->value.IsArray()) {
      throw DataError(fmt::format("trace: a line has no list '{}'", key));
    }
    for (const rapidjson::Value& one : found->value.GetArray()) {
      out.emplace_back(one.IsString() ? one.GetString() : "");
    }
    return out;
  }

 private:
  rapidjson::Document document_;
};

std::string named(std::string_view what, int64_t rank, size_t track, std::string_view name) {
  return JsonObject()
      .text("name", what)
      .text("ph", "M")
      .integer("pid", rank)
      .integer("tid", static_cast<int64_t>(track))
      .raw("args", JsonObject().text("name", name).str())
      .str();
}

class Events {
 public:
  void add(std::string_view line) { text_.append(text_.empty() ? "\n" : ",\n").append(line); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void take_rank(Lines& lines, Events& events, TraceFile& out) {
  const Object head(lines.next());
  const int64_t rank = head.integer("rank");
  events.add(named("process_name", rank, 0, fmt::format("rank {} on {}", rank, head.text("host"))));
  events.add(JsonObject()
                 .text("name", "process_sort_index")
                 .text("ph", "M")
                 .integer("pid", rank)
                 .integer("tid", 0)
                 .raw("args", JsonObject().integer("sort_index", rank).str())
                 .str());
  size_t track = 0;
  for (const std::string& name : head.texts("tracks")) {
    events.add(named("thread_name", rank, ++track, name));
  }
  int64_t count = 0;
  for (std::string_view line = lines.next();; line = lines.next()) {
    if (!line.starts_with("{\"events\"")) {
      events.add(line);
      ++count;
      continue;
    }
    if (const int64_t sent = Object(line).integer("events"); sent != count) {
      throw DataError(
          fmt::format("trace: rank {} sent {} events, {} are there", rank, sent, count));
    }
    break;
  }
  out.events += count;
  out.left_out += head.integer("left_out");
  if (head.integer("steps") > out.steps) {
    out.steps = head.integer("steps");
    out.first_step = head.integer("first_step");
  }
  ++out.ranks;
}

}  // namespace

std::optional<TraceFile> trace_file(std::string_view text, int64_t number) {
  if (text.empty()) return std::nullopt;
  Lines lines(text);
  if (Object(lines.next()).integer("trace") != number) return std::nullopt;
  TraceFile out;
  Events events;
  while (!lines.at_end()) take_rank(lines, events, out);
  out.json =
      fmt::format("{{\"displayTimeUnit\": \"ms\", \"traceEvents\": [{}\n]}}\n", events.text());
  return out;
}

}  // namespace ds
