#include "train/predict_mode.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/stdio.h"
#include "preempt/signal_watcher.h"
#include "train/exit_codes.h"
#include "train/image_files.h"

namespace tern {
namespace {

// Enough to keep the processor busy, few enough that the first answers come soon.
constexpr size_t kBatch = 32;

// What becomes of one file.
struct Answer {
  std::filesystem::path file;
  std::optional<Error> error;
  Prediction prediction;
};

// The images that the network was built for. Those of a run that takes samples as they are have the
// size of its data, which has to be asked.
Result<ImageView> image_view(const TrainedWeights& weights) {
  ImageView view{.options = weights.config.image, .shape = {.channels = weights.channels}};
  if (view.options.size > 0) {
    view.shape.height = view.shape.width = view.options.size;
    return view;
  }
  DataOptions options = weights.config.data;
  if (options.classes > 0) options.classes = weights.classes;
  const auto data = open_dataset(options, Split::test);
  if (data.has_value() && (*data)->shape().bytes() > 0) {
    view.shape.height = (*data)->shape().height;
    view.shape.width = (*data)->shape().width;
    return view;
  }
  return fail(Code::not_found,
              fmt::format("the run takes images in the size of its data, which cannot be asked "
                          "({}); give that size, for example --set image.size=32",
                          data.has_value() ? "they have many" : data.error().message));
}

nlohmann::json to_json(const TrainedWeights& weights, const Answer& answer) {
  nlohmann::json json = {{"file", answer.file.string()}};
  if (answer.error) {
    json["error"] = answer.error->message;
    return json;
  }
  json["predictions"] = nlohmann::json::array();
  for (const Prediction::Guess& guess : answer.prediction.guesses) {
    json["predictions"].push_back({{"label", guess.label},
                                   {"class", class_name(weights, guess.label)},
                                   {"probability", guess.probability}});
  }
  return json;
}

std::string to_text(const TrainedWeights& weights, const Answer& answer) {
  std::string text = answer.file.string() + ":";
  const char* separator = " ";
  for (const Prediction::Guess& guess : answer.prediction.guesses) {
    text += fmt::format("{}{} {:.1f} %", separator, class_name(weights, guess.label),
                        100 * guess.probability);
    separator = ", ";
  }
  return text + "\n";
}

// Reads what `answers` name and predicts it; a file that cannot be read gets its error.
Status predict_batch(Learner& learner, const ImageView& view, int64_t top, ImageDecoder& decoder,
                     std::span<Answer> answers) {
  Batch batch;
  std::vector<Answer*> read;
  for (Answer& answer : answers) {
    Result<ReadImage> image = read_image_file(answer.file, view, decoder);
    if (!image) {
      answer.error = image.error();
      continue;
    }
    batch.shape = image->shape;
    batch.images.insert(batch.images.end(), image->pixels.begin(), image->pixels.end());
    batch.labels.push_back(0);  // nobody looks at it
    read.push_back(&answer);
  }
  if (read.empty()) return {};
  batch.positions = {0, batch.samples()};
  RETURN_IF_ERROR(learner.put(batch));
  ASSIGN_OR_RETURN(std::vector<Prediction> predictions, learner.predict(top));
  for (size_t i = 0; i < read.size(); ++i) read[i]->prediction = std::move(predictions[i]);
  return {};
}

// Says what became of a batch, in the order of the files.
Status say(const TrainedWeights& weights, std::span<const Answer> answers, bool as_json,
           nlohmann::json& all, int& exit_code) {
  std::string text;
  for (const Answer& answer : answers) {
    if (answer.error) {
      write_stderr(fmt::format("tern: {}\n", answer.error->message));
      if (exit_code == kExitDone) exit_code = exit_code_of(answer.error->code);
    }
    if (as_json) {
      all.push_back(to_json(weights, answer));
    } else if (!answer.error) {
      text += to_text(weights, answer);
    }
  }
  return text.empty() ? Status() : print_answer(text);
}

}  // namespace

Result<int> predict_mode(const EvalProcess& process, const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const PredictRequest request, parse_predict_flags(arguments));
  NoticeBoard board;
  ASSIGN_OR_RETURN(const auto signals, SignalWatcher::start(board, *process.clock,
                                                            [] { _exit(kExitInterruptedTwice); }));
  ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> files, list_image_files(request.files));
  ASSIGN_OR_RETURN(const TrainedWeights weights, open_trained_weights(request.weights, process));
  ASSIGN_OR_RETURN(const ImageView view, image_view(weights));
  ASSIGN_OR_RETURN(const std::unique_ptr<Learner> learner,
                   make_learner(weights, view.shape, process));
  const int64_t top = std::min(request.top, weights.classes);
  // Images of different shapes share no batch.
  const size_t batch = view.options.size > 0 && view.options.rectangular ? 1 : kBatch;

  std::vector<Answer> answers(files.size());
  for (size_t i = 0; i < files.size(); ++i) answers[i].file = files[i];
  ImageDecoder decoder;
  nlohmann::json all = nlohmann::json::array();
  int exit_code = kExitDone;
  for (size_t begin = 0; begin < answers.size(); begin += batch) {
    if (const std::optional<Notice> notice = board.notice()) {
      return notice->kind == NoticeKind::preempt ? kExitPreempted : kExitStopped;
    }
    const std::span<Answer> part =
        std::span(answers).subspan(begin, std::min(batch, answers.size() - begin));
    RETURN_IF_ERROR(predict_batch(*learner, view, top, decoder, part));
    RETURN_IF_ERROR(say(weights, part, request.json, all, exit_code));
  }
  if (request.json) {
    const auto replace = nlohmann::json::error_handler_t::replace;
    RETURN_IF_ERROR(print_answer(all.dump(2, ' ', false, replace) + "\n"));
  }
  return exit_code;
}

}  // namespace tern
