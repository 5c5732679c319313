// The report of launcher/report/preflight.h, for people and for programs.
#include <fmt/format.h>

#include <algorithm>

#include "core/values/index.h"
#include "launcher/decide/text/json_text.h"
#include "launcher/report/preflight.h"
#include "launcher/report/progress.h"

namespace ds {
namespace {

std::string shown_name(const std::string& host) { return host.empty() ? "this machine" : host; }

std::string_view word_of(FindingLevel level) {
  return level == FindingLevel::kBad ? "bad" : "warning";
}

std::vector<const Finding*> findings_of(const SurveyedHost& host,
                                        const std::vector<Finding>& findings) {
  std::vector<const Finding*> out;
  for (const Finding& finding : findings) {
    if (finding.host == host.host.name) out.push_back(&finding);
  }
  return out;
}

std::string limit_json(const agent::Limit& limit) {
  return JsonObject().integer("soft", limit.soft()).integer("hard", limit.hard()).str();
}

std::string facts_json(const agent::Facts& facts) {
  JsonObject out;
  out.integer("cores", facts.cores())
      .integer("gpus", facts.gpus())
      .integer("memory_available", facts.memory_available())
      .integer("shared_memory_free", facts.shared_memory_free())
      .integer("shared_memory_total", facts.shared_memory_total())
      .raw("open_files", limit_json(facts.open_files()))
      .raw("processes", limit_json(facts.processes()))
      .raw("locked_memory", limit_json(facts.locked_memory()));
  if (facts.has_directory()) out.integer("disk_free", facts.directory().free_bytes());
  return out.str();
}

std::string finding_json(const Finding& finding) {
  return JsonObject()
      .text("check", finding.check)
      .text("level", word_of(finding.level))
      .text("what", finding.what)
      .text("fix", finding.fix)
      .str();
}

std::string host_json(const SurveyedHost& host, const std::vector<Finding>& findings) {
  const std::vector<const Finding*> mine = findings_of(host, findings);
  const bool ok =
      std::ranges::none_of(mine, [](const Finding* f) { return f->level == FindingLevel::kBad; });
  JsonObject out;
  out.text("host", host.host.name).raw("ok", ok ? "true" : "false");
  out.integer("ranks", narrow<int64_t>(host.host.slots.size()));
  out.raw("clock_offset_s",
          host.clock ? json_number(static_cast<double>(host.clock->offset_us) / 1e6) : "null");
  out.raw("facts", host.facts ? facts_json(*host.facts) : "null");
  std::string list;
  for (const Finding* finding : mine) list += (list.empty() ? "" : ", ") + finding_json(*finding);
  return out.raw("findings", fmt::format("[{}]", list)).str();
}

}  // namespace

std::string preflight_text(const std::vector<SurveyedHost>& hosts,
                           const std::vector<Finding>& findings) {
  const auto bad = std::ranges::count(findings, FindingLevel::kBad, &Finding::level);
  const auto warnings = narrow<int64_t>(findings.size()) - bad;
  int64_t unfit = 0;
  std::vector<std::string> well;
  std::string body;
  for (const SurveyedHost& host : hosts) {
    const std::vector<const Finding*> mine = findings_of(host, findings);
    const std::string name = shown_name(host.host.name);
    if (mine.empty()) well.push_back(name);
    if (!mine.empty()) body += fmt::format("\n  {}", name);
    for (size_t i = 0; i < mine.size(); ++i) {
      body +=
          fmt::format("\n    {:<8} {}: {}", word_of(mine[i]->level), mine[i]->check, mine[i]->what);
      const bool next_says_it = i + 1 < mine.size() && mine[i + 1]->fix == mine[i]->fix;
      if (!mine[i]->fix.empty() && !next_says_it)
        body += fmt::format("\n             fix: {}", mine[i]->fix);
    }
    unfit +=
        std::ranges::any_of(mine, [](const Finding* f) { return f->level == FindingLevel::kBad; })
            ? 1
            : 0;
  }
  const auto count = narrow<int64_t>(hosts.size());
  std::string text = unfit == 0
                         ? fmt::format("preflight: {} can be used", format_count(count, "host"))
                         : fmt::format("preflight: {} of {} cannot be used, {} found", unfit,
                                       format_count(count, "host"), format_count(bad, "fault"));
  if (warnings > 0) text += fmt::format(", {}", format_count(warnings, "warning"));
  text += body;
  if (!body.empty() && !well.empty()) text += fmt::format("\n  ok: {}", fmt::join(well, ", "));
  return text;
}

std::string preflight_json(const std::vector<SurveyedHost>& hosts,
                           const std::vector<Finding>& findings) {
  std::string list;
  for (const SurveyedHost& host : hosts)
    list += (list.empty() ? "" : ", ") + host_json(host, findings);
  return JsonObject()
      .raw("ok", any_bad(findings) ? "false" : "true")
      .raw("hosts", fmt::format("[{}]", list))
      .str();
}

}  // namespace ds
