#include "launcher/decide/lease_rules.h"

#include <fmt/format.h>
#include <rapidjson/document.h>

#include "core/status/error.h"
#include "launcher/decide/text/json_text.h"

namespace ds {
namespace {

constexpr size_t kLongestName = 255;

std::string text_of(const rapidjson::Document& in, const char* key) {
  const auto at = in.FindMember(key);
  return at != in.MemberEnd() && at->value.IsString()
             ? std::string(at->value.GetString(), at->value.GetStringLength())
             : "";
}

int64_t number_of(const rapidjson::Document& in, const char* key) {
  const auto at = in.FindMember(key);
  return at != in.MemberEnd() && at->value.IsInt64() ? at->value.GetInt64() : 0;
}

}  // namespace

std::string to_text(const Lease& lease) {
  JsonObject out;
  out.text("token", lease.token)
      .text("host", lease.host.substr(0, kLongestName))
      .integer("pid", lease.pid)
      .integer("process_start", lease.process_start)
      .text("kernel", lease.kernel)
      .text("pid_namespace", lease.pid_namespace)
      .text("since", lease.since)
      .integer("renewals", lease.renewals)
      .raw("over", lease.over ? "true" : "false")
      .raw("exit_code", lease.exit_code ? std::to_string(*lease.exit_code) : "null");
  std::string text = out.str();
  DS_CHECK(text.size() < kLeaseBytes, "lease: {} bytes, expected less than {}", text.size(),
           kLeaseBytes);
  text.append(kLeaseBytes - 1 - text.size(), ' ');
  return text + "\n";
}

std::optional<Lease> parse_lease(std::string_view text) {
  if (text.size() != kLeaseBytes) return std::nullopt;
  rapidjson::Document in;
  in.Parse<rapidjson::kParseIterativeFlag>(text.data(), text.size());
  if (in.HasParseError() || !in.IsObject()) return std::nullopt;
  Lease out{.token = text_of(in, "token"),
            .host = text_of(in, "host"),
            .pid = number_of(in, "pid"),
            .process_start = number_of(in, "process_start"),
            .kernel = text_of(in, "kernel"),
            .pid_namespace = text_of(in, "pid_namespace"),
            .since = text_of(in, "since"),
            .renewals = number_of(in, "renewals"),
            .over = false,
            .exit_code = std::nullopt};
  const auto over = in.FindMember("over");
  out.over = over != in.MemberEnd() && over->value.IsTrue();
  const auto code = in.FindMember("exit_code");
  if (code != in.MemberEnd() && code->value.IsInt()) out.exit_code = code->value.GetInt();
  if (out.token.empty() || out.pid <= 0) return std::nullopt;
  return out;
}

bool is_anothers(std::string_view text, const Lease& ours) {
  const std::optional<Lease> found = parse_lease(text);
  return found && found->token != ours.token;
}

std::string describe(const Lease& lease) {
  return fmt::format("dslaunch, pid {} on {}{}", lease.pid,
                     lease.host.empty() ? "an unknown host" : lease.host,
                     lease.since.empty() ? "" : ", since " + lease.since);
}

LeaseContest::Verdict LeaseContest::look(Time now, LeaseLock lock, std::string_view text,
                                         const LeaseWitness& witness) {
  if (lock == LeaseLock::kHeld) return Verdict::kRefuse;
  const std::optional<Lease> found = parse_lease(text);
  if (text.empty() || (found && found->over)) return Verdict::kTake;
  if (found && found->kernel == witness.kernel) {
    if (lock == LeaseLock::kOurs) return Verdict::kTake;  // it would have the lock
    if (found->pid_namespace == witness.pid_namespace) {
      return witness.holder_runs ? Verdict::kRefuse : Verdict::kTake;
    }
  }
  // Another machine's, whose locks may not reach us, or one that was being written: who holds it
  // renews it.
  if (!seen_) {
    seen_ = text;
    watched_since_ = now;
  }
  if (*seen_ != text) return Verdict::kRefuse;
  return now - watched_since_ >= kLeasePatience ? Verdict::kTake : Verdict::kWatch;
}

}  // namespace ds
