// What a training run is made of, and the members of it that are built from that alone.
#pragma once

#include <chrono>
#include <memory>

#include "config/config.h"
#include "generate/text_samples.h"
#include "rankd/control/control_client.h"
#include "train/assemble.h"
#include "train/batches/loader_source.h"
#include "train/checkpointing.h"
#include "train/evaluate/evaluation.h"
#include "train/measure/op_log.h"
#include "train/memory_tier.h"
#include "train/reference/run_reference.h"
#include "train/settings/job.h"
#include "train/settings/observers.h"
#include "train/step/prefetching_source.h"
#include "train/watch/best_keeper.h"
#include "train/watch/memory_saver.h"
#include "train/watch/sample_audit.h"
#include "train/watch/step_reports.h"
#include "train/watch/tag_saver.h"

namespace ds {

// What a run is made of; all of it outlives the run.
struct RunParts {
  std::chrono::steady_clock::time_point begun;  // this process's part of the epoch
  const JobPlan& plan;
  ControlClient& control;
  const Config& config;
  const TrainingData& data;
  const Workspace& workspace;
  Engine& engine;
  FileSystem& files;
  MemoryTier* memory;        // null: not wanted
  CallQueue& calls;          // of all groups
  OpLog& ops;                // of the stream that computes
  BackgroundLog& beside;     // of everything else that this rank does
  const FolderFrame& frame;  // of rank 0, for final/
};

// Returns where this rank's part of a batch lies.
SamplePlace place_of(const Engine& engine);
Sampler sampler_of(const Config& config, const BatchShape& batch, const SampleSet& samples);
Checkpointing::Options checkpoint_options(const RunParts& parts, const BatchShape& batch);
// Null where there is nothing to evaluate on.
std::unique_ptr<Evaluation> evaluation_of(const RunParts& parts, const BatchShape& batch,
                                          RunReports& reports, int64_t steps);
// Who the reference is, and what it is asked about where the run goes on from that step to the last
// of `steps`; samples are pairs of texts.
RunReference reference_of(const RunParts& parts, const BatchShape& batch, RunReports& reports,
                          int64_t step, int64_t steps);
// Null where nobody asks for a sample of text. ConfigError where no tokenizer is named.
std::unique_ptr<TextSamples> text_samples_of(const RunParts& parts, RunReports& reports,
                                             int64_t steps);
// Null where nothing goes by evaluations.
std::unique_ptr<BestKeeper> best_of(const RunParts& parts, Checkpointing& checkpoints,
                                    TagSaver& saver, int64_t steps);
// What is looked at between two steps; but for what is kept of it, all of it takes the time that is
// told as "evaluation_s".
struct Evaluations {
  std::unique_ptr<Evaluation> loss;   // null: nothing to evaluate on
  std::unique_ptr<TextSamples> text;  // null: nobody asks for samples
  std::unique_ptr<BestKeeper> best;   // null: nothing goes by them
  bool due(int64_t steps_done) const;
  void after(int64_t steps_done, Metrics& metrics) const;
  void judge(const StepReport& report) const;  // when others have heard of the step
  void measure(Measured& measured) const;
};
std::unique_ptr<TagSaver> saver_of(const RunParts& parts, Checkpointing& checkpoints,
                                   RunReports& reports, int64_t steps);
std::unique_ptr<SampleAudit> audit_of(const RunParts& parts);
std::unique_ptr<MetricsReport> metrics_of(const RunParts& parts, const BatchShape& batch,
                                          int64_t samples_per_epoch, int64_t steps);
// parts.memory is not null.
std::unique_ptr<MemorySaver> memory_saver_of(const RunParts& parts, RunReports& reports,
                                             int64_t steps);
// Null where the step reads no batches, and where it reads them itself: on a CPU, where it takes
// the cores that the thread would take, and a batch is little beside what is computed of it.
std::unique_ptr<PrefetchingSource> prefetched(const RunParts& parts, BatchSource& source,
                                              int64_t steps);

}  // namespace ds
