// A step that several ranks take together.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "core/random.h"
#include "train/batch_pieces.h"
#include "train/learner.h"
#include "train/learner_torch.h"

namespace tern {
namespace {

using Reduction = Collectives::Torch::Reduction;

// The first all-reduce of a step: what the batch gave, and each rank's word.
constexpr size_t kSums = 3;  // loss, correct, samples

struct BatchSums {
  double loss = 0;
  double correct = 0;
};

torch::Tensor pack(const BatchSums& sums, const RankStep& exchange, const Collectives& group) {
  const auto size = kSums + kRankWordSize * static_cast<size_t>(group.world());
  const torch::Tensor packed = torch::zeros({static_cast<int64_t>(size)}, torch::kFloat64);
  const std::span<double> numbers(packed.mutable_data_ptr<double>(), size);
  numbers[0] = sums.loss;
  numbers[1] = sums.correct;
  numbers[2] = static_cast<double>(exchange.own_samples);
  put_word(exchange.mine, group.rank(), numbers.subspan(kSums));
  return packed;
}

BatchSums unpack(const torch::Tensor& packed, RankStep& exchange) {
  const std::span<const double> numbers(packed.const_data_ptr<double>(),
                                        static_cast<size_t>(packed.numel()));
  exchange.samples = std::llround(numbers[2]);
  exchange.all = read_words(numbers.subspan(kSums));
  return {.loss = numbers[0], .correct = numbers[1]};
}

// Batch norm's running statistics, averaged with the ranks' shares of the batch as weights, so that
// replicas stay equal; counts (of batches) become the largest.
class BufferMean {
 public:
  BufferMean(Collectives::Torch& group, const KeptBuffers& buffers, double weight) : group_(group) {
    for (const auto& [type, flat] : buffers.flats()) {
      const bool is_mean = flat.live.is_floating_point();
      Part part{.live = flat.live, .is_mean = is_mean};
      part.sent = is_mean ? flat.live * weight : flat.live.clone();
      part.pending =
          group.start_reduction(part.sent, is_mean ? Reduction::sum : Reduction::largest);
      parts_.push_back(std::move(part));
    }
  }

  // `correction` makes the weights add up to 1.
  Status finish(double correction) {
    for (Part& part : parts_) {
      RETURN_IF_ERROR(group_.wait(part.pending));
      if (part.is_mean && correction != 1) part.sent.mul_(correction);
    }
    for (Part& part : parts_) part.live.copy_(part.sent);
    return {};
  }

 private:
  struct Part {
    torch::Tensor live, sent;
    bool is_mean = true;
    PendingCollective pending;
  };
  Collectives::Torch& group_;
  std::vector<Part> parts_;
};

// What the network says where batch norm has nothing to take a mean of (model/resnet.cc).
constexpr char kLonely[] = "leaves batch norm one value per channel";

Error too_small_a_share(const RankStep& exchange, int64_t world) {
  return fail(
      Code::invalid,
      fmt::format("batch norm cannot learn from one value per channel, which is what this rank's "
                  "share of {} of a batch of {} gives it; use fewer than {} ranks, or a "
                  "train.batch (and a last batch of the epoch) with two samples for each",
                  exchange.own_samples, exchange.samples_planned, world));
}

// What is random inside the model differs from rank to rank, as it does from sample to sample.
uint64_t seed_of(uint64_t seed, int64_t step, int64_t rank) {
  const uint64_t of_step = random_value(seed, Stream::step, static_cast<uint64_t>(step));
  return rank == 0 ? of_step : random_value(of_step, Stream::step, static_cast<uint64_t>(rank));
}

}  // namespace

Status Learner::join(Collectives* group, BucketBytes bytes) {
  return guarded("join the other ranks", [&]() -> Status {
    Torch& t = *torch_;
    t.group = group;
    if (group == nullptr) {
      t.buckets.reset();
      return {};
    }
    if (!t.kept) {
      std::vector<torch::Tensor> tensors;
      for (const auto& [name, tensor] : t.buffers) tensors.push_back(tensor);
      t.kept.emplace(tensors);
    }
    if (t.buckets == nullptr) {
      t.buckets = std::make_unique<GradientBuckets>(t.parameter_tensors(), bytes);
    }
    return {};
  });
}

// Gradients are summed, so each rank's count by its part of the whole batch: the mean over all
// samples, however unevenly they are shared out. The weights are those of the batch as planned;
// where bad samples are missing from it, all is scaled at the end.
Result<StepResult> Learner::Torch::gradients_of_all(int64_t step, RankStep& exchange) {
  Collectives::Torch& others = group->torch();
  const double weight = static_cast<double>(exchange.own_samples) /
                        static_cast<double>(std::max<int64_t>(1, exchange.samples_planned));
  BatchSums own;
  std::vector<BatchPiece> pieces;
  if (exchange.own_samples > 0) pieces = split(batch, setup.accumulate);
  torch::Tensor packed;
  PendingCollective telling;
  std::optional<BufferMean> mean;
  // After the forward pass of the last piece: what is sent then overlaps with the backward pass.
  const auto tell = [&] {
    const torch::NoGradGuard no_grad;
    packed = pack(own, exchange, *group);
    telling = others.start_reduction(packed, Reduction::sum);
    mean.emplace(others, *kept, weight);
    buckets->begin(others);
  };
  for (size_t i = 0; i < pieces.size(); ++i) {
    const BatchPiece& piece = pieces[i];
    const torch::Tensor logits = forward(piece.images).contiguous();
    const torch::Tensor piece_loss = loss(logits, piece.labels);
    own.loss += piece_loss.item<double>() * static_cast<double>(piece.labels.size(0));
    // Counted on the CPU, like the sums they are told with.
    own.correct += static_cast<double>(count_correct(logits.detach().cpu(), piece.labels.cpu()));
    if (i + 1 == pieces.size()) tell();
    backward(piece_loss, piece.share * weight);
  }
  if (pieces.empty()) tell();
  buckets->send_rest();

  const torch::NoGradGuard no_grad;
  RETURN_IF_ERROR(others.wait(telling));
  const BatchSums sums = unpack(packed, exchange);
  const double correction = static_cast<double>(exchange.samples_planned) /
                            static_cast<double>(std::max<int64_t>(1, exchange.samples));
  RETURN_IF_ERROR(mean->finish(correction));
  RETURN_IF_ERROR(buckets->wait());
  if (correction != 1) {
    std::vector<torch::Tensor> gradients;
    for (const auto& [name, parameter] : parameters) gradients.push_back(parameter.grad());
    at::_foreach_mul_(gradients, correction);
  }
  const auto samples = static_cast<double>(std::max<int64_t>(1, exchange.samples));
  const StepResult result{
      .step = step, .loss = sums.loss / samples, .correct = std::llround(sums.correct)};
  // Before the weights become NaN too. All ranks have the same number here.
  if (!scaler && !std::isfinite(result.loss)) return diverged(result.loss, step);
  return result;
}

Result<StepResults> Learner::step_together(int64_t step, double learning_rate, RankStep& exchange) {
  Torch& t = *torch_;
  TERN_CHECK(t.group != nullptr);
  Result<StepResults> results = guarded("train a step", [&]() -> Result<StepResults> {
    if (t.setup.model.dropout > 0) {
      torch::manual_seed(seed_of(t.setup.seed, step, t.group->rank()));
    }
    if (!t.network->is_training()) t.network->train();
    t.kept->keep();
    Result<StepResult> result = t.gradients_of_all(step, exchange);
    const bool is_nothing = exchange.samples == 0 || exchange.is_given_up();
    if (!result.has_value() || is_nothing) {
      t.kept->restore();
      t.buckets->forget();
      if (result.has_value() || (is_nothing && result.error().code == Code::out_of_range)) {
        return StepResults{};
      }
      return result.error();
    }
    t.update(learning_rate);
    double scale = 0;
    if (t.scaler) {
      result->is_skipped = t.scaler->found_inf().item<float>() != 0;
      scale = t.scaler->scale().item<float>();
    }
    ASSIGN_OR_RETURN(const StepResult good, judge(*result, scale));
    return StepResults{good};
  });
  if (!results.has_value() && results.error().code == Code::unavailable) {
    return results.error().at(fmt::format("step {}", step + 1));
  }
  const bool is_lonely =
      !results.has_value() && results.error().message.find(kLonely) != std::string::npos;
  if (is_lonely) return too_small_a_share(exchange, t.group->world());
  return results;
}

}  // namespace tern
