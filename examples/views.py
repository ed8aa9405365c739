"""Views: which group of columns matters, and which single column."""

from sklearn.datasets import load_breast_cancer

from kernelweave import Gaussian, KernelBank, Linear, MKLClassifier
from kernelweave.inspection.report import weights_by_kernel, weights_by_view

data = load_breast_cancer()

# Each cell property has three columns: its mean, its standard error and its worst value.
views = {"mean": slice(0, 10), "error": slice(10, 20), "worst": slice(20, 30)}
model = MKLClassifier(KernelBank(views=views)).fit(data.data, data.target)
print("Three groups of columns, five default kernels on each:")
print(weights_by_view(model))

# A kernel on every column: most weights become zero.
model = MKLClassifier(KernelBank(Gaussian(relative=True), views="each"), C=10.0)
model.fit(data.data, data.target)
print(f"\nOne Gaussian kernel on each of {data.data.shape[1]} columns:")
for place in (-model.weights_).argsort()[:5]:
    view = int(model.bank_.views[place].removeprefix("x"))
    print(f"{model.weights_[place]:.3f}  {data.feature_names[view]}")
print(f"{(model.weights_ > 0).sum()} of {model.weights_.size} columns are used")

# A kernel on its own columns, next to kernels on every view.
bank = KernelBank(
    [Linear(), ("worst area and texture", Gaussian(relative=True), [23, 21])],
    views=views,
    scale="standard",
)
print("\nA kernel on two chosen columns, next to linear ones:")
print(weights_by_kernel(MKLClassifier(bank).fit(data.data, data.target)))
