// Fuzzes the short texts that a launcher hears: requests for the figures of the run, the file and
// the lines by which several dslaunch of one job meet, what squeue prints, and environment files.
#include "launcher/agents/host_leader.h"
#include "launcher/agents/rendezvous_file.h"
#include "launcher/decide/watch/deadline_watch.h"
#include "launcher/process/files/environment_list.h"
#include "launcher/report/metrics_endpoint.h"
#include "tests/fuzz/one_input.h"

namespace {

void expect(bool holds, const char* what) {
  if (!holds) throw ds::InternalError(what);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  ds::fuzz::expect_refusal_or_success([&] {
    using Rest = ds::RequestServer::Rest;
    const auto figures = [] { return std::string("figure 1\n"); };
    const auto reply = ds::http_reply(text, Rest::kMayCome, figures);
    expect(!reply || reply->starts_with("HTTP/1."), "a reply that is none");
    for (const Rest rest : {Rest::kTooLong, Rest::kTooLate}) {
      expect(ds::http_reply(text, rest, figures).has_value(), "no reply to a request that is over");
    }
    // What is answered is answered alike however much more comes.
    expect(!reply || ds::http_reply(text + "x", Rest::kMayCome, figures) == reply,
           "a reply that changes");
  });
  ds::fuzz::expect_refusal_or_success([&] {
    const auto place = ds::parse_rendezvous(text);
    expect(!place || ds::parse_rendezvous(ds::rendezvous_text(*place)) == place,
           "a meeting is not what was written");
  });
  ds::fuzz::expect_refusal_or_success([&] {
    const auto share = ds::parse_share(text);
    expect(!share || ds::parse_share(ds::share_packet(*share)) == share,
           "a share is not what was written");
  });
  ds::fuzz::expect_refusal_or_success([&] {
    const auto left = ds::parse_slurm_time_left(text);
    expect(!left || *left >= ds::Time::zero(), "less than no time is left");
  });
  ds::fuzz::expect_refusal_or_success([&] {
    const ds::ExportedVariables exported = ds::exported_environment(
        {.ours = {"HOME=/root"}, .files = {{"env", std::string(text)}}, .named = {}});
    ds::with_shell_values({"HOME=/root", "A=b"}, exported.shell_values);
  });
  return 0;
}
