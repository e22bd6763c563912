// A model that is not made of Cohort's layers, with all that Cohort does for a run: any number of workers and lanes with the same
// bits, every synchronisation rule, checkpoints, evaluation, reports.
//
//   foreign_model train --network softmax --dataset mnist --workers 2
//
// All that is asked of a model is a flat list of parameters and the gradient of a batch: a Trainable. This one is a linear
// classifier in plain loops; it could as well call another library. docs/custom-models.md says what to keep in mind.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include <cohort.h>

namespace {

using namespace cohort;

ParameterLayout softmaxLayout(const Shape& input, int classes) {
  const std::int64_t pixels = input.channels * input.height * input.width;
  return ParameterLayout(
      {{.name = "fc.weight", .shape = {classes, pixels}, .initializer = Initializer::normal(0.01F)},
       {.name = "fc.bias", .shape = {classes}, .initializer = Initializer::constant(0)}});
}

// One lane's model; other lanes have their own, on the same weights.
class Softmax : public Trainable {
 public:
  explicit Softmax(const ForeignModel::Options& options)
      : layout_(softmaxLayout(options.input, options.classes)),
        pixels_(static_cast<std::size_t>(layout_.at(0).shape[1])),
        classes_(static_cast<std::size_t>(options.classes)),
        weights_(options.weights) {}

  const ParameterLayout& layout() const override { return layout_; }
  void refreshWeights(Share) override {}  // nothing is derived from them

  LossSum forward(const Batch& batch) override {
    batch_ = batch;
    errors_.assign(static_cast<std::size_t>(batch.size()) * classes_, 0.0F);
    LossSum sum;
    for (std::int64_t i = 0; i < batch.size(); ++i) sum += forwardOne(static_cast<std::size_t>(i));
    return sum;
  }

  // The gradient of the mean loss over the whole step's samples, all workers' together.
  void backward(GradientSink& sink) override {
    const auto scale = static_cast<float>(1.0 / static_cast<double>(batch_.globalSize));
    for (PieceIndex piece = 0; piece < static_cast<int>(layout_.pieces().size()); ++piece) {
      const Piece& where = layout_.piece(piece);
      const std::span<float> gradient = sink.open(piece);
      std::ranges::fill(gradient, 0.0F);
      for (std::size_t i = 0; i < static_cast<std::size_t>(batch_.size()); ++i) {
        const float* errors = errors_.data() + i * classes_;
        for (std::size_t k = 0; k < gradient.size(); ++k) {
          // A piece is a whole parameter here: the matrix, or the bias behind it.
          gradient[k] += where.parameter == 0
                             ? scale * errors[k / pixels_] * batch_.images[i * pixels_ + k % pixels_]
                             : scale * errors[k];
        }
      }
      sink.close(piece);
    }
  }

 private:
  LossSum forwardOne(std::size_t sample) {
    const std::int32_t label = batch_.labels[sample];
    if (label == kIgnoredLabel) return {};  // padding of an evaluation
    std::vector<double> scores(classes_);
    for (std::size_t c = 0; c < classes_; ++c) {
      scores[c] = weights_[classes_ * pixels_ + c];
      for (std::size_t p = 0; p < pixels_; ++p) {
        scores[c] += weights_[c * pixels_ + p] * batch_.images[sample * pixels_ + p];
      }
    }
    const double own = scores[static_cast<std::size_t>(label)];
    const auto better = std::ranges::count_if(scores, [&](double score) { return score > own; });
    const double largest = *std::ranges::max_element(scores);
    double total = 0;
    for (double& score : scores) total += score = std::exp(score - largest);
    for (std::size_t c = 0; c < classes_; ++c) {
      const double wanted = c == static_cast<std::size_t>(label) ? 1 : 0;
      errors_[sample * classes_ + c] = static_cast<float>(scores[c] / total - wanted);
    }
    return {.loss = largest + std::log(total) - own, .samples = 1, .top1 = better == 0, .top5 = better < 5};
  }

  ParameterLayout layout_;
  std::size_t pixels_;
  std::size_t classes_;
  std::span<const float> weights_;
  Batch batch_;
  std::vector<float> errors_;  // by sample and class: probability minus what it should be
};

}  // namespace

int main(int argc, char** argv) {
  NetworkRegistry networks = builtinNetworks();
  networks.add(
      {.name = "softmax",
       .description = "a linear classifier in plain loops",
       .recipe = {.dataset = "mnist",
                  .channels = 1,
                  .imageSize = 28,
                  .classes = 10,
                  .batchSize = 100,
                  .grains = 4,
                  .optimizer = "sgd",
                  .learningRate = 0.1,
                  .trainSteps = 600},
       .foreign = ForeignModel{.layout = softmaxLayout, .make = [](const ForeignModel::Options& options) {
                                 return std::make_unique<Softmax>(options);
                               }}});
  return run(argc, argv, networks);
}
