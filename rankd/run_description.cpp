#include "rankd/run_description.h"

#include <fmt/format.h>

#include "core/values/count_text.h"

namespace ds {
namespace {

std::string share_text(double passes) {
  return passes < 1 ? fmt::format("{:.2g} % of a pass", 100 * passes)
                    : fmt::format("{:.4g} passes", passes);
}

std::string documents_text(int64_t count) {
  return fmt::format(", {} {}", count_text(count), count == 1 ? "document" : "documents");
}

std::string frozen_text(const RunOutline& f) {
  if (f.frozen == 0) return "";
  const std::string packed =
      f.packed > 0 ? fmt::format(", {} of them {}", count_text(f.packed), f.code) : "";
  return fmt::format(" ({} train, {} are frozen{})", count_text(f.parameters - f.frozen),
                     count_text(f.frozen), packed);
}

}  // namespace

std::vector<std::string> description(const RunOutline& f) {
  const auto share = [](int64_t part, int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
  };
  std::string data = fmt::format("{:<10} {} samples of {} tokens a pass ({} tokens{})", "data",
                                 count_text(f.samples), f.length, count_text(f.samples * f.length),
                                 f.documents ? documents_text(*f.documents) : "");
  if (f.validation > 0) data += fmt::format(", {} for validation", count_text(f.validation));
  data += f.tokenizer.empty() ? ", token ids" : ", tokenizer " + f.tokenizer;
  std::vector<std::string> lines{fmt::format("{:<10} {}, {} parameters{}, {}, {}, ZeRO stage {}",
                                             "model", f.family, count_text(f.parameters),
                                             frozen_text(f), f.dtype, f.optimizer, f.stage)};
  if (!f.teacher.empty()) {
    lines.push_back(
        fmt::format("{:<10} {}, {} parameters", "teacher", f.teacher, count_text(f.teacher_size)));
  }
  lines.push_back(std::move(data));
  lines.push_back(fmt::format("{:<10} {} steps of {} samples: {}, which is {} steps", "plan",
                              f.steps, f.batch, share_text(share(f.steps * f.batch, f.samples)),
                              count_text(f.batch > 0 ? (f.samples + f.batch - 1) / f.batch : 0)));
  return lines;
}

}  // namespace ds
