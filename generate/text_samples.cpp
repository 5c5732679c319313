#include "generate/text_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "config/reader/value.h"
#include "core/status/failpoint.h"
#include "core/values/index.h"
#include "data/tokenizer/token_stream.h"
#include "generate/shown_text.h"

namespace ds {
namespace {

std::string why_no_text(const GenerationTask& task, int64_t length) {
  const auto count = narrow<int64_t>(task.prompts.front().ids.size());
  if (count == 0) {
    return "train.sample_prompt: no text, and the tokenizer begins texts with no token of its own; "
           "give at least one character";
  }
  if (count < length) return "";
  return fmt::format(
      "train.sample_prompt: {} tokens, and texts of train.sample_length end after {}; shorten the "
      "one or raise the other",
      count, length);
}

GenerationTask checked_task(const Engine& engine, FileSystem& files,
                            const TextSamples::Options& options) {
  GenerationTask task = task_of(files, options.tokenizer, dimensions(engine.options().model),
                                options.folder, records_of({options.prompt}));
  const std::string why = why_no_text(task, engine.options().sample_length);
  if (!why.empty()) throw ConfigError(why);
  return task;
}

int32_t told(HostExchange& host, int32_t token) {
  host.broadcast(std::as_writable_bytes(std::span(&token, 1)), 0);
  return token;
}

}  // namespace

TextSamples::TextSamples(Engine& engine, RunReports& reports, FileSystem& files,
                         const Options& options)
    : engine_(engine),
      reports_(reports),
      schedule_(options.schedule),
      rng_(engine.options().seed, "text sample"),
      task_(checked_task(engine, files, options)),
      sampler_({}, task_.never) {}

void TextSamples::after(int64_t steps_done) {
  if (!due(steps_done)) return;
  DS_FAILPOINT("train.text_sample");
  if (engine_.host().rank() != 0) return serve(steps_done);
  std::string line;
  try {
    line = fmt::format("sample after step {}: {}", steps_done,
                       to_compact_json(Value::string(draw_text(steps_done))));
  } catch (const ValidationError& error) {
    line = fmt::format("no sample after step {}: {}", steps_done, error.what());
  }
  told(engine_.host(), kEnd);
  reports_.report_text(line);
}

Tensor TextSamples::compute(int64_t steps_done, int32_t token, KvCache& cache) {
  reports_.report_progress({.step = steps_done,
                            .micro_step = cache.length() + 1,
                            .phase = "sample",
                            .total = engine_.options().sample_length});
  return engine_.next_logits(token, cache);
}

void TextSamples::serve(int64_t steps_done) {
  KvCache cache = engine_.sample_cache();
  int32_t token = kEnd;
  while ((token = told(engine_.host(), kEnd)) != kEnd) compute(steps_done, token, cache);
}

std::string TextSamples::draw_text(int64_t steps_done) {
  const std::span<const int32_t> prompt = task_.prompts.front().ids;
  const Rng rng = rng_.derive(static_cast<uint64_t>(steps_done));
  KvCache cache = engine_.sample_cache();
  std::vector<float> logits(to_size(task_.dims.vocabulary));
  ShownText shown({});
  TokenStream texts(*task_.tokenizer, prompt);
  std::string text = task_.prompts.front().record.text;
  int32_t token = prompt.front();
  while (cache.length() < cache.capacity()) {
    const Tensor scores = compute(steps_done, told(engine_.host(), token), cache);
    if (const auto seen = to_size(cache.length()); seen < prompt.size()) {
      token = prompt[seen];
      continue;
    }
    engine_.stream().copy(scores.address(), logits.data(), scores.bytes());
    token = sampler_.draw(logits, rng.uniform(static_cast<uint64_t>(cache.length())));
    if (std::ranges::find(task_.eos, token) != task_.eos.end()) break;
    text += shown.add(texts.add(token));
  }
  text += shown.add(texts.finish());
  return text + shown.finish();
}

}  // namespace ds
