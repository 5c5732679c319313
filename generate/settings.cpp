#include "generate/settings.h"

#include <fmt/ranges.h>

namespace ds {

static_assert(DrawingArgs::kLeastPenalty == kLeastRepetitionPenalty &&
              DrawingArgs::kMostPenalty == kMostRepetitionPenalty);
namespace {

constexpr const char* kFile = "generation_config.json";

class Settings {
 public:
  // The option where there is one, else the file's value where there is one, else `value` as it is.
  template <class T>
  void settle(T& value, const std::optional<T>& option, const std::optional<T>& of_file,
              const char* key) {
    if (option) {
      value = *option;
    } else if (of_file) {
      take(value, *of_file, key, "");
    }
  }
  template <class T>
  void take(T& value, const T& of_file, const char* key, const char* why) {
    value = of_file;
    out.taken.emplace_back(key);
    words_.push_back(fmt::format("{} {}{}", key, of_file, why));
  }
  void note(const GenerationDefaults& file) {
    if (!words_.empty()) {
      out.notes.push_back(fmt::format("note: {} from {}", fmt::join(words_, ", "), kFile));
    }
    if (!file.not_applied.empty()) {
      out.notes.push_back(
          fmt::format("note: not applied from {}: {}", kFile, fmt::join(file.not_applied, ", ")));
    }
  }

  GenerationSettings out;

 private:
  std::vector<std::string> words_;
};

}  // namespace

GenerationSettings generation_settings(const GenerateArgs& args, const GenerationDefaults& file) {
  const DrawingArgs& options = args.drawing;
  Settings settings;
  SamplerOptions& sampler = settings.out.sampler;
  if (!options.temperature && file.do_sample == false) {
    settings.take(sampler.temperature, 0.0, "temperature", " (do_sample false)");
  } else {
    settings.settle(sampler.temperature, options.temperature, file.temperature, "temperature");
  }
  const bool draws = sampler.temperature > 0;
  const auto of_file = [draws](const auto& value) {
    return draws ? value : std::decay_t<decltype(value)>();
  };
  settings.settle(sampler.top_k, options.top_k, of_file(file.top_k), "top_k");
  settings.settle(sampler.top_p, options.top_p, of_file(file.top_p), "top_p");
  settings.settle(sampler.min_p, options.min_p, of_file(file.min_p), "min_p");
  settings.settle(sampler.repetition_penalty, options.repetition_penalty, file.repetition_penalty,
                  "repetition_penalty");
  settings.settle(settings.out.max_tokens, args.max_tokens, file.max_new_tokens, "max_new_tokens");
  settings.note(file);
  if (!draws && args.num_samples > 1) {
    settings.out.notes.push_back(
        "note: at temperature 0 the samples of a prompt are the same text");
  }
  return settings.out;
}

}  // namespace ds
