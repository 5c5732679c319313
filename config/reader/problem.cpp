#include "config/reader/problem.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/status/error.h"

namespace ds {

std::string Problem::text() const {
  std::string out;
  if (origin.source) out = origin.text() + ": ";
  if (!path.empty()) out += path + ": ";
  return out + message;
}

// Notes make way for errors, without which a file would be taken for right.
void Problems::add(Problem problem) {
  if (all_.size() >= kMostReported) {
    ++left_out_;
    const auto note = std::find_if(all_.rbegin(), all_.rend(), [](const Problem& kept) {
      return kept.severity == Severity::kNote;
    });
    if (problem.severity == Severity::kNote || note == all_.rend()) return;
    all_.erase(std::next(note).base());
  }
  all_.push_back(std::move(problem));
}

void Problems::error(Basis basis, std::string path, const Origin& origin, std::string message) {
  add({Severity::kError, basis, std::move(path), origin, std::move(message)});
}

void Problems::note(std::string path, const Origin& origin, std::string message, Basis basis) {
  add({Severity::kNote, basis, std::move(path), origin, std::move(message)});
}

bool is_within(std::string_view path, std::string_view section) {
  if (!path.starts_with(section)) return false;
  return path.size() == section.size() || path[section.size()] == '.' ||
         path[section.size()] == '[';
}

void Problems::soften(const std::function<bool(const Problem&)>& is_moot, std::string_view why) {
  for (Problem& problem : all_) {
    if (problem.severity != Severity::kError || problem.basis != Basis::kOwn || !is_moot(problem))
      continue;
    problem.severity = Severity::kNote;
    problem.message += fmt::format("; has no effect {}", why);
  }
}

bool Problems::has_errors() const {
  return std::any_of(all_.begin(), all_.end(),
                     [](const Problem& p) { return p.severity == Severity::kError; });
}

void Problems::throw_if_any() const {
  std::string text;
  for (const Problem& problem : all_) {
    if (problem.severity != Severity::kError) continue;
    if (!text.empty()) text += '\n';
    text += problem.text();
  }
  if (text.empty()) return;
  if (left_out_ > 0) text += fmt::format("\n... and {} more", left_out_);
  throw ConfigError(text);
}

}  // namespace ds
