// One row per verb. A new one is a file in cli/verbs/, a row here, and a row in the table of the
// program that carries it out: launcher/actions.cpp or rankd/main.cpp.
#include <array>

#include "cli/verb.h"
#include "cli/verbs/agent.h"
#include "cli/verbs/check.h"
#include "cli/verbs/completion.h"
#include "cli/verbs/convert.h"
#include "cli/verbs/data/look_at_data.h"
#include "cli/verbs/data/tokenize.h"
#include "cli/verbs/elastic.h"
#include "cli/verbs/env.h"
#include "cli/verbs/eval.h"
#include "cli/verbs/explain.h"
#include "cli/verbs/generate.h"
#include "cli/verbs/init.h"
#include "cli/verbs/inspect.h"
#include "cli/verbs/man.h"
#include "cli/verbs/merge.h"
#include "cli/verbs/plan.h"
#include "cli/verbs/preflight.h"
#include "cli/verbs/reports/lr_range_test.h"
#include "cli/verbs/reports/profile.h"
#include "cli/verbs/reports/report.h"
#include "cli/verbs/reports/trace.h"
#include "cli/verbs/run.h"
#include "cli/verbs/schema.h"
#include "cli/verbs/storage/io.h"
#include "cli/verbs/storage/nvme_tune.h"
#include "cli/verbs/watch/ctl.h"
#include "cli/verbs/watch/stack.h"
#include "cli/verbs/watch/status.h"
#include "cli/verbs/watch/tail.h"
#include "cli/verbs/watch/top.h"

namespace ds {
namespace {

constexpr std::array kVerbs{
    Verb{"run", "train as train.json says; the verb may be left out",
         described<RunArgs, describe_run>},
    Verb{"plan", "memory, communication and FLOPs of a job, without running it",
         described<PlanArgs, describe_plan>, Program::kEngine},
    Verb{"profile", "parameters, FLOPs and time of a model, module by module, in one step",
         described<ProfileArgs, describe_profile>, Program::kEngine},
    Verb{"lr-range-test", "which learning rates a job trains with, by a short run",
         described<LrRangeTestArgs, describe_lr_range_test>},
    Verb{"generate", "continue a prompt with a trained model",
         described<GenerateArgs, describe_generate>, Program::kEngine},
    Verb{"eval", "loss, perplexity and bits per byte of a model on given texts",
         described<EvalArgs, describe_eval>, Program::kEngine},
    Verb{"tokenize", "texts to token ids and back", described<TokenizeArgs, describe_tokenize>,
         Program::kEngine},
    Verb{"convert", "checkpoints and weights as a folder of Hugging Face or DeepSpeed",
         described<ConvertArgs, describe_convert>, Program::kEngine},
    Verb{"merge", "low-rank adapters and their model as one model",
         described<MergeArgs, describe_merge>, Program::kEngine},
    Verb{"inspect", "what a file of weights holds, without running any of it",
         described<InspectArgs, describe_inspect>, Program::kEngine},
    Verb{"look-at-data", "samples as a model is given them, and what of them is learnt",
         described<LookAtDataArgs, describe_look_at_data>, Program::kEngine},
    Verb{"init", "write a first train.json, from answers or options",
         described<InitOptions, describe_init>},
    Verb{"check", "everything that is wrong with a configuration, at once",
         described<CheckOptions, describe_check>},
    Verb{"preflight", "everything that is wrong with the hosts of a job, in one report",
         described<PreflightArgs, describe_preflight>},
    Verb{"explain", "values of a configuration and where they come from",
         described<ExplainOptions, describe_explain>},
    Verb{"elastic", "batch size and worlds of an elastic job, and what losing nodes does",
         described<ElasticVerbOptions, describe_elastic>},
    Verb{"env", "what this build has, what this machine offers, what each feature needs",
         described<EnvOptions, describe_env>},
    Verb{"io", "how fast tensors are written to a folder and read from it",
         described<IoArgs, describe_io>, Program::kEngine},
    Verb{"nvme-tune", "the aio section with which these disks are fastest",
         described<NvmeTuneArgs, describe_nvme_tune>, Program::kEngine},
    Verb{"schema", "the JSON Schema of train.json, for editors",
         described<SchemaOptions, describe_schema>},
    Verb{"status", "where a run is, or how it ended", described<StatusOptions, describe_status>},
    Verb{"top", "the status of a run, renewed every second", described<TopOptions, describe_top>},
    Verb{"tail", "the logs of all ranks, equal lines folded",
         described<TailOptions, describe_tail>},
    Verb{"stack", "what every thread of every rank does right now",
         described<StackOptions, describe_stack>},
    Verb{"report", "one page about a run: curves, time, memory, ranks, restarts",
         described<ReportOptions, describe_report>},
    Verb{"trace", "what all ranks do in the next steps of a running job, as a picture",
         described<TraceOptions, describe_trace>},
    Verb{"ctl", "save, stop, pause or resume a running job, or let hosts join it",
         described<CtlOptions, describe_ctl>},
    Verb{"completion", "what a shell needs to complete these command lines",
         described<CompletionOptions, describe_completion>},
    Verb{"man", "the manual pages", described<ManOptions, describe_man>},
    // What dslaunch starts on other hosts; nobody types it.
    Verb{"agent", "one host of a job", described<AgentArgs, describe_agent>, Program::kLauncher,
         Listing::kHidden},
};

}  // namespace

std::span<const Verb> verbs() { return kVerbs; }

}  // namespace ds
