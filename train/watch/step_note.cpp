#include "train/watch/step_note.h"

#include <rapidjson/document.h>

#include <sstream>

#include "core/error.h"

namespace ds {
namespace {

std::string optional_number(const char* name, const std::optional<double>& value) {
  return value ? fmt::format(R"(, "{}": {:.17g})", name, *value) : "";
}

double number_in(const rapidjson::Document& note, const char* name) {
  const auto found = note.FindMember(name);
  if (found == note.MemberEnd() || !found->value.IsNumber()) {
    throw ValidationError(fmt::format("the note of a step has no number \"{}\"", name));
  }
  return found->value.GetDouble();
}

std::optional<double> number_if_in(const rapidjson::Document& note, const char* name) {
  return note.HasMember(name) ? std::optional(number_in(note, name)) : std::nullopt;
}

int64_t integer_in(const rapidjson::Document& note, const char* name) {
  const auto found = note.FindMember(name);
  if (found == note.MemberEnd() || !found->value.IsInt64()) {
    throw ValidationError(fmt::format("the note of a step has no integer \"{}\"", name));
  }
  return found->value.GetInt64();
}

std::string to_note(const StepMetrics& m) {
  return fmt::format(
      R"({{"step": {}, "total_steps": {}, "loss": {:.17g}, "lr": {:.17g}, "loss_scale": {:.17g}, )"
      R"("tokens_per_s": {:.17g}, "samples": {}, "bytes_peak": {}{}{}}})",
      m.step, m.total_steps, m.loss, m.lr, m.loss_scale, m.tokens_per_s, m.samples, m.bytes_peak,
      optional_number("grad_norm", m.grad_norm),
      optional_number("validation_loss", m.validation_loss));
}

StepMetrics read_note(const std::string& text) {
  rapidjson::Document note;
  note.Parse<rapidjson::kParseFullPrecisionFlag>(text.c_str());
  if (note.HasParseError() || !note.IsObject())
    throw ValidationError("the note of a step is no object");
  return {.step = integer_in(note, "step"),
          .total_steps = integer_in(note, "total_steps"),
          .loss = number_in(note, "loss"),
          .grad_norm = number_if_in(note, "grad_norm"),
          .lr = number_in(note, "lr"),
          .loss_scale = number_in(note, "loss_scale"),
          .tokens_per_s = number_in(note, "tokens_per_s"),
          .samples = integer_in(note, "samples"),
          .bytes_peak = integer_in(note, "bytes_peak"),
          .validation_loss = number_if_in(note, "validation_loss")};
}

}  // namespace

std::string to_notes(std::span<const StepMetrics> steps) {
  std::string out;
  for (const StepMetrics& metrics : steps) out += to_note(metrics) + "\n";
  return out;
}

std::vector<StepMetrics> read_step_notes(const std::string& notes) {
  std::vector<StepMetrics> out;
  std::istringstream lines(notes);
  for (std::string line; std::getline(lines, line);) out.push_back(read_note(line));
  return out;
}

}  // namespace ds
