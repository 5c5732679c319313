// Area pipe_schedule: the instructions of one stage as text.
#include "model/parallel/pipeline_schedule.h"
#include "tests/conform/areas.h"
#include "tests/conform/json_io.h"

namespace ds::conform {

std::string pipe_schedule(const rapidjson::Value& input) {
  const std::string name = get<std::string>(input, "schedule");
  const PipelineKind kind = name == "train"       ? PipelineKind::k1F1B
                            : name == "inference" ? PipelineKind::kInference
                                                  : PipelineKind::kDataParallel;
  const PipelineSchedule schedule = pipeline_schedule(
      kind,
      {.micro_batches = get<int>(input, "micro_batches"), .stages = get<int>(input, "stages")},
      get<int>(input, "stage_id"));
  std::vector<std::vector<std::string>> steps;
  for (const auto& step : schedule.steps) {
    auto& texts = steps.emplace_back();
    for (const auto& instruction : step) texts.push_back(to_string(instruction));
  }
  return Answer().add("num_pipe_buffers", schedule.buffer_count).add("steps", steps).text();
}

}  // namespace ds::conform
