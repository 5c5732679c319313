#include "train/reference/run_reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "config/families/hf_config.h"
#include "train/beginning.h"
#include "train/configured_model.h"
#include "train/settings/resume_facts.h"

namespace ds {
namespace {

std::vector<int64_t> unknown_of(const ReferenceSet& set, const ReferenceScores& scores) {
  std::vector<int64_t> unknown;
  std::ranges::copy_if(set.wanted, std::back_inserter(unknown),
                       [&](int64_t sample) { return !scores.knows(sample); });
  return unknown;
}

// All ranks get what rank 0 has read. Returns why it could not, on rank 0.
std::string read_for_all(HostExchange& host, FileSystem& files, const RunReference& run,
                         RunReferences& references) {
  std::string why;
  if (host.rank() == 0) why = read_references(files, run.path, run.facts, references);
  for (ReferenceScores* const scores : {&references.train, &references.validation}) {
    std::vector<ReferenceScores::Pair> pairs(scores->pairs().begin(), scores->pairs().end());
    if (pairs.empty()) continue;
    host.broadcast(std::as_writable_bytes(std::span(pairs)), 0);
    scores->set_all(std::move(pairs));
  }
  return why;
}

}  // namespace

void require_same_kind(const ModelConfig& model, FileSystem& files, const std::string& reference) {
  FactChanges changes;
  const ModelConfig other = model_at("preference.reference", reference, files);
  compare_models(format_hf_config(other, DType::kF32), format_hf_config(model, DType::kF32),
                 changes);
  if (changes.model.empty()) return;
  throw ConfigError(fmt::format(
      "preference.reference: {} is another model than the one that is trained: {} (in the "
      "reference, and in the model); expected one of the same kind and size",
      reference, fmt::join(changes.model, "; ")));
}

std::vector<int64_t> samples_of_steps(const Sampler& sampler, int64_t global_batch, int64_t begin,
                                      int64_t end, int64_t samples) {
  // An epoch may leave some out, and which they are may change from epoch to epoch.
  if (end - begin > samples / global_batch) {
    std::vector<int64_t> all(to_size(samples));
    std::iota(all.begin(), all.end(), int64_t{0});
    return all;
  }
  std::set<int64_t> found;
  for (int64_t at = begin * global_batch; at < end * global_batch; ++at) {
    found.insert(sampler.sample_at(at));
  }
  return {found.begin(), found.end()};
}

FilledReferences fill_references(Engine& engine, FileSystem& files, const RunReference& run,
                                 int64_t step, RunReferences& references) {
  FilledReferences out;
  if (step > 0) {
    const std::string why = read_for_all(engine.host(), files, run, references);
    if (!why.empty()) {
      out.notices.push_back(fmt::format("the reference is asked once more: {}", why));
    }
  }
  const std::vector<int64_t> train = unknown_of(run.train, references.train),
                             validation = unknown_of(run.validation, references.validation);
  if (train.empty() && validation.empty()) return out;
  if (step > 0 || run.folder) {
    if (run.folder) require_same_kind(engine.options().model, files, *run.folder);
    begin_training(engine, files, {.folder = run.folder ? run.folder : run.model});
    out.weights = WeightsAfter::kOther;
  }
  const auto ask = [&](const ReferenceSet& set, std::span<const int64_t> wanted,
                       ReferenceScores& scores) {
    if (set.samples == nullptr) return;
    score_references(engine, {.samples = *set.samples, .wanted = wanted, .place = run.place},
                     scores, run.on_batch);
  };
  ask(run.train, train, references.train);
  ask(run.validation, validation, references.validation);
  if (engine.host().rank() == 0) {
    const std::string why =
        failure_of([&] { write_references(files, run.path, run.facts, references); });
    if (!why.empty()) {
      out.notices.push_back(
          fmt::format("note: a restart will ask the reference once more: {}", why));
    }
  }
  return out;
}

}  // namespace ds
