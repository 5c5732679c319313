#include "rankd/generation_job.h"

#include "comm/peers.h"
#include "config/config.h"
#include "core/files/input_files.h"
#include "core/status/failpoint.h"
#include "core/values/index.h"
#include "generate/generator.h"
#include "generate/stage_pipeline.h"
#include "model/families/zoo.h"
#include "proto/control.pb.h"
#include "rankd/job_comm.h"
#include "rankd/verbs/look.h"
#include "rankd/verbs/terminal/input_texts.h"

namespace ds {
namespace {

control::GenerationOrder parsed_order(const std::string& bytes) {
  control::GenerationOrder order;
  if (!order.ParseFromString(bytes)) {
    throw InternalError("generate: the launcher's order cannot be read");
  }
  return order;
}

std::vector<PromptRecord> prompts_of(const control::GenerationOrder& order) {
  std::vector<PromptRecord> prompts;
  for (const auto& prompt : order.prompts()) {
    PromptRecord& record = prompts.emplace_back();
    record.text = prompt.text();
    for (const auto& field : prompt.carried()) {
      record.carried.push_back({.name = field.name(), .json = field.json()});
    }
  }
  return prompts;
}

DrawingArgs drawing_of(const control::GenerationOrder::Drawing& order) {
  DrawingArgs drawing;
  if (order.has_temperature()) drawing.temperature = order.temperature();
  if (order.has_top_k()) drawing.top_k = order.top_k();
  if (order.has_top_p()) drawing.top_p = order.top_p();
  if (order.has_min_p()) drawing.min_p = order.min_p();
  if (order.has_repetition_penalty()) drawing.repetition_penalty = order.repetition_penalty();
  return drawing;
}

// All but the prompts.
GenerateArgs args_of(const control::GenerationOrder& order) {
  GenerateArgs args;
  args.source = order.source();
  if (order.has_base()) args.base = order.base();
  if (order.has_max_tokens()) args.max_tokens = order.max_tokens();
  args.drawing = drawing_of(order.drawing());
  args.num_samples = order.num_samples();
  if (order.has_logprobs()) args.logprobs = order.logprobs();
  args.stops.assign(order.stops().begin(), order.stops().end());
  args.tokenizer = order.tokenizer();
  args.dtype = order.dtype();
  args.seed = order.seed();
  args.json = order.json();
  args.chat = {.is_chat = order.chat(), .chat_template = order.chat_template()};
  return args;
}

// Cuts the model into stages by what is computed: an embedding multiplies nothing.
std::vector<LayerRange> cut_in_stages(const ModelConfig& model, int stages) {
  const int64_t layers = all_layers(model).end;
  if (stages > layers) {
    throw UsageError(fmt::format(
        "generate: {} ranks, and the model has {} layers that they could be given: the embedding, "
        "{} blocks and the head; give {} ranks at most (--num-gpus: of each host)",
        stages, layers, layers - 2, layers));
  }
  return cut_model(model, "best", stages);
}

// What ranks begin with, and what is looked at before there are any.
struct Prepared {
  GenerateArgs args;
  ModelSource source;
  GenerationTask task;
  std::vector<LayerRange> stages;
};

Prepared prepare(FileSystem& files, const std::string& bytes, int ranks) {
  const control::GenerationOrder order = parsed_order(bytes);
  GenerateArgs args = args_of(order);
  ModelSource source = open_model_source(files, {args.source, args.base});
  GenerationTask task = generation_task(files, source, args, prompts_of(order));
  std::vector<LayerRange> stages = cut_in_stages(source.model, ranks);
  return {std::move(args), std::move(source), std::move(task), std::move(stages)};
}

// Generates in one rank, which has no other rank to be a stage with.
void run_alone(const Prepared& work, const GenerationOutput& output) {
  OneStage model(work.source, work.task, work.args);
  generate(model, work.task, work.args, output);
}

void run_stage(const Prepared& work, const GenerationOutput& output, const JobPlan& plan,
               ControlClient& control, TcpListener& listener) {
  StageSteps steps(work.source, work.task, work.args,
                   {.layers = nth(work.stages, plan.rank),
                    .slots = plan.world_size,
                    .place = {.threads = work.args.threads}});
  DS_FAILPOINT("generate.loaded");
  const MeshSizes sizes{.pipe = plan.world_size};
  JobComm comm(plan, control, listener, Config{}, sizes);
  Connections connections = Connections::over(comm.world(), sizes, comm.sinks());
  Communicator& pipe = connections.peers().mesh.group(Axis::kPipe);
  if (plan.rank > 0) {
    serve_stage(steps, pipe, output.progress);
    return;
  }
  FirstStage first(steps, pipe);
  generate(first, work.task, work.args, output);
  first.end();
}

}  // namespace

int run_generation(const JobPlan& plan, ControlClient& control, TcpListener& listener) {
  DS_FAILPOINT("generate.begin");
  control.report_progress({.step = 0, .micro_step = 0, .phase = "load"});
  RealFileSystem real;
  InputFiles files(real);
  Prepared work = prepare(files, plan.generation, plan.world_size);
  work.args.threads = plan.threads;
  int64_t tokens = 0;
  const GenerationOutput output{
      .print = [&](const std::string& text) { control.report_generated(text); },
      .note = [&](const std::string& line) { control.report_text(line); },
      .progress =
          [&] {
            control.report_progress({.step = ++tokens, .micro_step = 0, .phase = "generate"});
          }};
  if (plan.world_size == 1) {
    run_alone(work, output);
  } else {
    run_stage(work, output, plan, control, listener);
  }
  return static_cast<int>(ExitCode::kDone);
}

int look_at_generation(const std::string& order_file, int ranks) {
  RealFileSystem real;
  InputFiles files(real);
  InputFindings found;
  try {
    prepare(files, read_text_file(files, order_file), ranks);
  } catch (const Error& error) {
    found.defects.push_back({.code = error.exit_code(), .key = "", .what = error.what()});
  }
  print_findings(found);
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace ds
